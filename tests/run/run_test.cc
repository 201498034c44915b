#include "memmodel/run.h"

#include <doctest/doctest.h>

#include <string>

namespace memmodel {
namespace {

RunOptions Valid() {
  RunOptions options;
  options.command = {"python", "train.py"};
  options.device.context.base = 500 * kMiB;
  options.total_bytes = 24 * kGiB;
  return options;
}

std::string Reason(const RunOptions& options) {
  std::string reason;
  return IsValid(options, &reason) ? "valid" : reason;
}

TEST_CASE("options are checked before anything is started") {
  CHECK(Reason(Valid()) == "valid");
  RunOptions options = Valid();
  options.command.clear();
  CHECK(Reason(options).find("after --") != std::string::npos);
  options = Valid();
  options.find_batch = true;
  CHECK(Reason(options).find("--find-batch needs {batch}") == 0);
  options.command.emplace_back("--batch-size={batch}");
  CHECK(Reason(options) == "valid");
  options.find_batch = false;
  CHECK(Reason(options).find("{batch}") == 0);
  options = Valid();
  options.gpus = 0;
  CHECK(Reason(options) == "--gpus is 0; it must be 1 to 64");
  options = Valid();
  options.total_bytes = 400 * kMiB;
  CHECK(Reason(options).find("less than the CUDA context") != std::string::npos);
}

}  // namespace
}  // namespace memmodel
