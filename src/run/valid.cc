// Which questions can be asked.
#include <algorithm>
#include <string>

#include "memmodel/run.h"
#include "src/run/runs.h"

namespace memmodel {

bool IsValid(const RunOptions& options, std::string* reason) {
  const auto wrong = [reason](const std::string& text) {
    *reason = text;
    return false;
  };
  if (options.command.empty()) {
    return wrong("what is to be run? Give the command after --, such as -- python train.py");
  }
  const bool place =
      std::any_of(options.command.begin(), options.command.end(),
                  [](const auto& word) { return word.find(kBatchPlace) != std::string::npos; });
  if (options.find_batch && !place) {
    return wrong(
        "--find-batch needs {batch} in the command, where the batch size stands, such as "
        "--batch-size {batch}");
  }
  if (options.find_batch && options.device_kind == DeviceKind::kCuda) {
    return wrong("--find-batch looks on virtual cards; it cannot be had with --device cuda");
  }
  if (!options.find_batch && place) return wrong("{batch} in the command needs --find-batch");
  if (!(options.target > 0 && options.target <= 1)) {
    return wrong("--target is " + std::to_string(options.target) +
                 "; it must be above 0 and at most 1");
  }
  if (options.steps < 0 || options.steps > 100000) {
    return wrong("--steps is " + std::to_string(options.steps) + "; it must be 0 to 100000");
  }
  if (options.gpus < 1 || options.gpus > 64) {
    return wrong("--gpus is " + std::to_string(options.gpus) + "; it must be 1 to 64");
  }
  if (options.allocator_limit && *options.allocator_limit <= 0) {
    return wrong("--allocator-limit must be above 0");
  }
  if (options.unknown_count && !(*options.unknown_count >= 0 && *options.unknown_count <= 1)) {
    return wrong("--unknown-count is " + std::to_string(*options.unknown_count) +
                 "; it must be 0 to 1");
  }
  if (!options.device.unsupported.empty()) {
    return wrong(options.device.device_name + " cannot be used: " + options.device.unsupported);
  }
  if (options.total_bytes <= options.device.context.base) {
    return wrong("--gpu-mem of " + FormatBytes(options.total_bytes) +
                 " is less than the CUDA context alone takes");
  }
  return true;
}

}  // namespace memmodel
