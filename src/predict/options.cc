// What may be asked, and what the answers are called.
#include "memmodel/predict.h"

namespace memmodel {

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kDoesNotFit:
      return "does_not_fit";
    case Verdict::kUnknown:
      break;
  }
  return "unknown";
}

int ExitCode(const Prediction& prediction) {
  switch (prediction.verdict) {
    case Verdict::kFits:
      return kExitFits;
    case Verdict::kDoesNotFit:
      return kExitDoesNotFit;
    case Verdict::kUnknown:
      break;
  }
  return kExitUnknown;
}

bool IsValid(const PredictOptions& options, std::string* reason) {
  const auto wrong = [reason](const std::string& text) {
    *reason = text;
    return false;
  };
  if (options.batch && *options.batch < 1) {
    return wrong("--batch is " + std::to_string(*options.batch) +
                 "; a batch has at least 1 sample");
  }
  if (!(options.target > 0 && options.target <= 1)) {
    return wrong("--target is " + std::to_string(options.target) +
                 "; it must be above 0 and at most 1");
  }
  if (options.steps < 1 || options.steps > 1000) {
    return wrong("--steps is " + std::to_string(options.steps) + "; it must be 1 to 1000");
  }
  if (options.job.accumulate < 1) {
    return wrong("--accumulate is " + std::to_string(options.job.accumulate) +
                 "; it must be at least 1");
  }
  if (options.allocator_limit && *options.allocator_limit <= 0) {
    return wrong("--allocator-limit must be above 0");
  }
  if (options.unknown_count && !(*options.unknown_count >= 0 && *options.unknown_count <= 1)) {
    return wrong("--unknown-count must be 'max' or a fraction from 0 to 1");
  }
  if (options.job.device == DeviceKind::kVirtual && !options.device.unsupported.empty()) {
    return wrong(options.device.device_name +
                 " cannot be predicted: " + options.device.unsupported);
  }
  if (options.total_bytes <= options.device.context.base) {
    return wrong("--gpu-mem of " + FormatBytes(options.total_bytes) +
                 " is less than the CUDA context alone takes (" +
                 FormatBytes(options.device.context.base) + " on " + options.device.device_name +
                 ")");
  }
  return true;
}

}  // namespace memmodel
