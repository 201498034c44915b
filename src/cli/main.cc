// The program memmodel: finds the subcommand, turns what went wrong while
// reading the command line into one message, and returns the exit code.
#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "src/cli/subcommand.h"
#include "src/core/nearest.h"

namespace memmodel::cli {

void Context::Fail(const Status& status) {
  std::fprintf(stderr, "memmodel: %s\n", status.message().c_str());
  exit_code = ExitCode(status);
}

void Context::Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    Fail(Status::Unavailable("cannot write to standard output"));
  }
}

namespace {

constexpr void (*kSubcommands[])(CLI::App&, Context&) = {
    AddPredict,
    AddRun,
    AddTrace,
    AddFit,
    AddExplain,
    AddSimulate,
    AddDiff,
    AddValidate,
    AddCalibrate,
    AddDevices,
};

// The long names of all options, "--batch", or of all subcommands of `app`.
std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> SubcommandNames(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

// One line for an argument that nothing takes: what it was and what is near.
std::string UnexpectedArgument(CLI::App& app, int argc, char** argv) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  CLI::App& where = chosen.empty() ? app : *chosen.front();
  const std::vector<std::string> remaining = app.remaining(true);
  const std::string what = !remaining.empty() ? remaining.front() : (argc > 1 ? argv[1] : "");
  if (what.starts_with("-")) {
    const std::string name = what.substr(0, what.find('='));
    return "unknown option '" + name + "'" + DidYouMean(name, OptionNames(where));
  }
  if (chosen.empty()) {
    return "unknown command '" + what + "'" + DidYouMean(what, SubcommandNames(app));
  }
  return "unexpected argument '" + what + "'";
}

std::string OwnPath(const char* argv0) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(argv0) : path.string();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "How much GPU memory a PyTorch training job needs, and the largest batch that is safe,\n"
      "without a GPU: memmodel runs the job's real code on a virtual GPU.\n"
      "Exit codes: 0 it fits, 1 it does not fit, 2 wrong usage or unreadable input, 3 unknown.",
      "memmodel");
  app.set_version_flag("--version", std::string("memmodel ") + MEMMODEL_VERSION);
  app.require_subcommand(1);
  Context context;
  context.program = OwnPath(argv[0]);
  for (const auto add : kSubcommands) add(app, context);

  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return kExitBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    context.Fail(Status::InvalidArgument(UnexpectedArgument(app, argc, argv)));
  } catch (const CLI::RequiredError& error) {
    const bool no_command = app.get_subcommands().empty() && argc > 1;
    context.Fail(Status::InvalidArgument(no_command ? UnexpectedArgument(app, argc, argv)
                                                    : std::string(error.what())));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    context.Fail(Status::InvalidArgument(error.what()));
  } catch (const std::exception& error) {
    context.Fail(Status::Internal(std::string("unexpected: ") + error.what()));
  }
  return context.exit_code;
}

}  // namespace
}  // namespace memmodel::cli

int main(int argc, char** argv) { return memmodel::cli::Main(argc, argv); }
