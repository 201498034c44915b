// What every subcommand of the memmodel program has in common.
//
// A subcommand is one file, src/cli/<name>.cc, with one function Add<Name>. It
// adds a CLI::App below `app`, its options, and a callback that does the work
// by calling the core and puts the exit code into `context`. To add one: the
// file (and its line in CMakeLists.txt), its declaration here, and its entry in
// kSubcommands in main.cc, in the order in which --help lists them.
#ifndef MEMMODEL_SRC_CLI_SUBCOMMAND_H_
#define MEMMODEL_SRC_CLI_SUBCOMMAND_H_

#include <CLI/CLI.hpp>
#include <string>

#include "memmodel/status.h"

namespace memmodel::cli {

struct Context {
  std::string program;  // absolute path of this program, for finding what lies beside it
  int exit_code = kExitFits;

  // Prints "memmodel: MESSAGE" on standard error and sets the exit code that
  // goes with the status (memmodel/status.h).
  void Fail(const Status& status);

  // Writes a whole report to standard output; a full disk or closed pipe is an
  // error like any other.
  void Print(const std::string& text);
};

void AddPredict(CLI::App& app, Context& context);
void AddRun(CLI::App& app, Context& context);
void AddTrace(CLI::App& app, Context& context);
void AddFit(CLI::App& app, Context& context);
void AddExplain(CLI::App& app, Context& context);
void AddSimulate(CLI::App& app, Context& context);
void AddDiff(CLI::App& app, Context& context);
void AddValidate(CLI::App& app, Context& context);
void AddCalibrate(CLI::App& app, Context& context);
void AddDevices(CLI::App& app, Context& context);

}  // namespace memmodel::cli

#endif  // MEMMODEL_SRC_CLI_SUBCOMMAND_H_
