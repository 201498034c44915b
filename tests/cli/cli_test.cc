// The program as a user meets it: what it prints, where, and its exit code.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

namespace fs = std::filesystem;

namespace {

struct Outcome {
  int code = -1;
  std::string out, err;
};

const fs::path& Scratch() {
  static const fs::path folder = [] {
    fs::path p = fs::path(MEMMODEL_BINARY_DIR) / "cli_test_files";
    fs::remove_all(p);
    fs::create_directories(p / "tmp");
    return p;
  }();
  return folder;
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Runs "memmodel ARGUMENTS" in a shell, with `environment` ("A=b C=d") before it.
Outcome Run(const std::string& arguments, const std::string& environment = "",
            const std::string& output = "") {
  const std::string fake =
      "MEMMODEL_TRACE=" + std::string(MEMMODEL_SOURCE_DIR) + "/tests/child/fake_child.py";
  const std::string command = "TMPDIR='" + (Scratch() / "tmp").string() + "' " +
                              (environment.find("REAL") == std::string::npos ? fake : "") + " " +
                              environment + " " + MEMMODEL_PROGRAM + " " + arguments + " >'" +
                              (output.empty() ? (Scratch() / "out").string() : output) + "' 2>'" +
                              (Scratch() / "err").string() + "'";
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), ReadAll(Scratch() / "out"), ReadAll(Scratch() / "err")};
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One line that begins with "memmodel: ", nothing on standard output.
void CheckMessage(const Outcome& outcome, int code, const std::string& part) {
  CAPTURE(outcome.err);
  CAPTURE(outcome.out);
  CHECK(outcome.code == code);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("memmodel: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(Contains(outcome.err, part));
}

std::string Predict(const std::string& more) { return "predict --model x.pt --gpu h200 " + more; }

}  // namespace

TEST_CASE("help and version") {
  CHECK(Contains(Run("--version").out, "memmodel " MEMMODEL_VERSION));
  const Outcome help = Run("predict --help");
  CHECK(help.code == 0);
  for (const char* option :
       {"--model", "--gpu", "--gpu-mem", "--batch", "--target", "--input", "--optimizer",
        "--precision", "--loss", "--mode", "--accumulate", "--channels-last", "--cudnn-benchmark",
        "--steps", "--device", "--step-protocol", "--allocator-limit", "--alloc-conf", "--json"}) {
    CAPTURE(option);
    CHECK(Contains(help.out, option));
  }
}

TEST_CASE("wrong usage is one message with the nearest name, and code 2") {
  CheckMessage(Run("predcit"), 2, "did you mean 'predict'");
  CheckMessage(Run(Predict("--batc 3")), 2, "did you mean '--batch'");
  CheckMessage(Run("predict --gpu h200"), 2, "--model is required");
  CheckMessage(Run("predict --model x.pt"), 2, "--gpu-mem");
  CheckMessage(Run(Predict("--batch 0")), 2, "--batch is 0");
  CheckMessage(Run(Predict("--batch -3")), 2, "--batch is -3");
  CheckMessage(Run(Predict("--batch many")), 2, "--batch");
  CheckMessage(Run("predict --model x.pt --gpu rtx3900"), 2, "did you mean 'rtx3090'");
  CheckMessage(Run("predict --model x.pt --gpu-mem 24Q"), 2, "24Q");
  CheckMessage(Run("predict --model x.pt --gpu-mem 100M"), 2, "--gpu-mem");
  CheckMessage(Run("predict --model x.pt --gpu v100"), 2, "cu126");
  CheckMessage(Run(Predict("--optimizer admaw")), 2, "did you mean 'adamw'");
  CheckMessage(Run(Predict("--input 3x")), 2, "--input");
  CheckMessage(Run(Predict("--precision fp8")), 2, "--precision");
  CheckMessage(Run(Predict("--target 2")), 2, "--target");
  CheckMessage(Run(Predict("--alloc-conf nonsense:1")), 2, "nonsense");
  CheckMessage(Run(Predict("--unknown-count 7")), 2, "--unknown-count");
  CheckMessage(Run(Predict("--allocator-limit lots")), 2, "--allocator-limit");
}

TEST_CASE("exit codes tell the verdict") {
  CHECK(Run(Predict("--batch 8")).code == 0);
  CHECK(Run("predict --model x.pt --gpu-mem 4G --batch 800").code == 1);
  CHECK(Run(Predict("--batch 8"), "FAKE_MODE=unknown").code == 3);
  CHECK(Run(Predict("--batch 8"), "FAKE_MODE=state_dict").code == 3);
  CheckMessage(Run(Predict("--batch 8"), "FAKE_MODE=bad_input"), 2, "no zip archive");
  CheckMessage(Run(Predict("--batch 8"), "FAKE_MODE=error"), 2, "aten::addmm");
  CheckMessage(Run(Predict("--batch 8"), "FAKE_MODE=die"), 3, "out of luck");
  CheckMessage(Run(Predict("--batch 8 --timeout 1"), "FAKE_MODE=hang"), 3, "no answer within 1 s");
}

TEST_CASE("JSON on standard output, and nothing else") {
  const Outcome outcome = Run(Predict("--json"));
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json["verdict"] == "fits");
  CHECK(json["largest_batch"].get<int>() > 0);
}

TEST_CASE("a full disk is an error, not a success") {
  const Outcome outcome = Run(Predict("--batch 8 --json"), "", "/dev/full");
  CHECK(outcome.code == 3);
  CHECK(Contains(outcome.err, "cannot write"));
}

TEST_CASE("no temporary file is left, whatever happened") {
  for (const char* mode : {"", "die", "signal", "bad_input", "error", "unknown"}) {
    Run(Predict("--batch 8"), std::string("FAKE_MODE=") + mode);
  }
  CHECK(fs::is_empty(Scratch() / "tmp"));
}

TEST_CASE("a signal ends the child and leaves nothing behind") {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("TMPDIR", (Scratch() / "tmp").c_str(), 1);
    setenv("FAKE_MODE", "hang", 1);
    setenv("MEMMODEL_TRACE", MEMMODEL_SOURCE_DIR "/tests/child/fake_child.py", 1);
    [[maybe_unused]] const FILE* quiet = std::freopen("/dev/null", "w", stderr);
    execl(MEMMODEL_PROGRAM, "memmodel", "predict", "--model", "x.pt", "--gpu", "h200", "--batch",
          "8", static_cast<char*>(nullptr));
    _exit(127);
  }
  // It is waiting for the child once the folder for the traces is there.
  for (int i = 0; i < 500 && fs::is_empty(Scratch() / "tmp"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(pid, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
  CHECK(fs::is_empty(Scratch() / "tmp"));
}

TEST_CASE("devices are listed, and one is shown with its sources") {
  const Outcome list = Run("devices");
  CHECK(list.code == 0);
  CHECK(Contains(list.out, "rtx4090"));
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(Contains(Run("devices h200").out, "150109880320"));
  CHECK(nlohmann::json::parse(Run("devices --json").out)["devices"].size() >= 22);
  CheckMessage(Run("devices gtx9999"), 2, "no GPU 'gtx9999'");
}

TEST_CASE("trace writes what it was asked to write") {
  const fs::path file = Scratch() / "x.trace";
  CheckMessage(Run("trace --model x.pt --gpu h200"), 2, "--output");
  const Outcome outcome = Run("trace --model x.pt --gpu h200 --batch 4 --output " + file.string());
  CHECK(outcome.code == 0);
  CHECK(Contains(ReadAll(file), "! memmodel-trace 2"));
  CheckMessage(Run("trace --model x.pt --gpu h200 --output /nowhere/x.trace"), 2, "/nowhere");
}

// With the real child, where it was built: files that are no model.
TEST_CASE("hostile files are one message each" *
          doctest::skip(access(MEMMODEL_BINARY_DIR "/memmodel-trace", X_OK) != 0)) {
  const auto predict = [](const fs::path& path) {
    return Run("predict --gpu h200 --batch 4 --model '" + path.string() + "'", "REAL=1");
  };
  const auto write = [](const char* name, const std::string& content) {
    std::ofstream(Scratch() / name, std::ios::binary) << content;
    return Scratch() / name;
  };
  CheckMessage(predict(Scratch() / "missing.pt"), 2, "missing.pt");
  CheckMessage(predict(Scratch()), 2, "directory");
  CheckMessage(predict(write("empty.pt", "")), 2, "empty.pt");
  CheckMessage(predict(write("text.pt", "this is not a zip archive, it is text")), 2, "text.pt");
  CheckMessage(predict(write("truncated.pt", std::string("PK\x03\x04") + std::string(40, 'x'))), 2,
               "truncated.pt");
}
