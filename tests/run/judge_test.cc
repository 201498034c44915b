#include "src/run/judge.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace memmodel {
namespace {

RunOptions Options() {
  RunOptions options;
  options.command = {"python3", "train.py"};
  return options;
}

ProcessReport Report(Outcome outcome) {
  ProcessReport report;
  report.cuda_used = true;
  report.answer.outcome = outcome;
  report.steps_done = 1;
  return report;
}

TEST_CASE("a run without an answer says why") {
  ScriptRun run;
  CHECK(Judge(Options(), run).message().find("started no Python") != std::string::npos);

  RunOptions isolated = Options();
  isolated.command = {"/usr/bin/python3.11", "-I", "train.py"};
  CHECK(Judge(isolated, run).message().find("-I") != std::string::npos);
  isolated.command = {"python3", "train.py", "-I"};  // the script's own option
  CHECK(Judge(isolated, run).message().find("ignores PYTHONPATH") == std::string::npos);

  run.pythons = 1;
  CHECK(Judge(Options(), run).code() == StatusCode::kUnknown);
  run.exit_status = 1;
  CHECK(Judge(Options(), run).code() == StatusCode::kBadInput);
  run.exit_status = 137;  // what a shell calls a process that signal 9 ended
  CHECK(Judge(Options(), run).message().find("killed (signal 9)") != std::string::npos);
  run.refusal = Refusal{"static_extension", "compiled"};
  CHECK(Judge(Options(), run).code() == StatusCode::kUnknown);
  run.refusal->code = "cpu_only_torch";
  CHECK(Judge(Options(), run).code() == StatusCode::kBadInput);
}

TEST_CASE("out of memory is an answer, an error is not") {
  ScriptRun run;
  run.pythons = 1;
  run.exit_status = 1;
  run.reports = {Report(Outcome::kOutOfMemory),
                 Report(Outcome::kError)};  // the other rank lost its peer
  CHECK(Judge(Options(), run).ok());
  run.reports = {Report(Outcome::kError)};
  run.reports[0].answer.error.message = "ValueError: mine";
  CHECK(Judge(Options(), run).message() ==
        "the script failed on its own after 1 of 3 steps: ValueError: mine");
  run.reports[0].unknown.push_back({.where = "train.py:3: x[mask]"});
  CHECK(Judge(Options(), run).code() == StatusCode::kUnknown);
}

class TwoRuns {
 public:
  TwoRuns() : folder_(std::filesystem::temp_directory_path() / "judge_test") {
    std::filesystem::create_directories(folder_);
  }
  ~TwoRuns() { std::filesystem::remove_all(folder_); }

  ScriptRun Of(const std::string& name, const std::string& trace) {
    const std::string path = folder_ / name;
    std::ofstream(path) << trace;
    ScriptRun run;
    run.reports = {Report(Outcome::kOk)};
    run.reports[0].devices = {{.device = 0, .path = path, .complete = true}};
    run.reports[0].unknown = {{.where = "early", .position = {{0, 1}}},
                              {.where = "late", .position = {{0, 3}}}};
    return run;
  }

 private:
  std::filesystem::path folder_;
};

TEST_CASE("the read before the first different request is named") {
  TwoRuns runs;
  const ScriptRun run = runs.Of("a", "a 100 512 0\nf 100 512 0\na 100 512 0\na 300 700 0\n");
  CHECK(FirstDifference(run, runs.Of("b", "a 900 512 0\nf 900 512 0\na 100 512 0\na 300 700 0\n"))
            .empty());
  CHECK(FirstDifference(
            run, runs.Of("c", "a 100 512 0\nf 100 512 0\na 100 600 0\na 300 700 0\n")) == "early");
  CHECK(FirstDifference(run, runs.Of("d", "a 100 512 0\nf 100 512 0\na 100 512 0\n")) == "late");
}

TEST_CASE("what cannot depend on a read is not compared") {
  TwoRuns runs;
  const std::string end = "a 100 512 0\na 300 700 0\nf 100 512 0\nf 300 700 0\n";
  ScriptRun run = runs.Of("a", "a 700 4096 0\na 800 2048 0\n" + end);
  ScriptRun other = runs.Of("b", "a 700 2048 0\na 800 4096 0\n" + end);
  CHECK_FALSE(FirstDifference(run, other).empty());  // the first read came after one request
  for (ScriptRun* one : {&run, &other}) {
    one->reports[0].unknown = {{.where = "early", .position = {{0, 2}}}};
  }
  CHECK(FirstDifference(run, other).empty());
  ScriptRun releases = runs.Of(
      "c", "a 700 4096 0\na 800 2048 0\na 100 512 0\na 300 700 0\nf 300 700 0\nf 100 512 0\n");
  releases.reports[0].unknown = run.reports[0].unknown;
  CHECK(FirstDifference(run, releases).empty());
  ScriptRun requests = runs.Of(
      "d", "a 700 4096 0\na 800 2048 0\na 300 700 0\na 100 512 0\nf 100 512 0\nf 300 700 0\n");
  requests.reports[0].unknown = run.reports[0].unknown;
  CHECK(FirstDifference(run, requests) == "early");
}

}  // namespace
}  // namespace memmodel
