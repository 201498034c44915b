#include "src/predict/certain.h"

#include <charconv>
#include <string_view>

namespace memmodel {
namespace {

std::string_view Option(const OptimizerSpec& optimizer, std::string_view key) {
  for (const auto& [name, value] : optimizer.options) {
    if (name == key) return value;
  }
  return {};
}

bool IsOn(const OptimizerSpec& optimizer, std::string_view key) {
  const std::string_view value = Option(optimizer, key);
  return !value.empty() && value != "0" && value != "0.0" && value != "false" && value != "False";
}

// Tensors of a parameter's own size that torch.optim (torch 2.11) keeps for each
// parameter: the init_group function of torch/optim/<name>.py.
std::int64_t StateTensors(const OptimizerSpec& optimizer) {
  const std::string& name = optimizer.name;
  if (name == "sgd") return IsOn(optimizer, "momentum") ? 1 : 0;
  if (name == "adam" || name == "adamw") return IsOn(optimizer, "amsgrad") ? 3 : 2;
  if (name == "rmsprop") {
    return 1 + (IsOn(optimizer, "momentum") ? 1 : 0) + (IsOn(optimizer, "centered") ? 1 : 0);
  }
  if (name == "adagrad" || name == "asgd" || name == "muon") return 1;
  if (name == "adadelta" || name == "adamax" || name == "nadam" || name == "radam" ||
      name == "rprop") {
    return 2;
  }
  if (name == "custom") {
    const std::string_view states = Option(optimizer, "states");
    std::int64_t count = 0;
    std::from_chars(states.data(), states.data() + states.size(), count);
    return count;
  }
  return 0;
}

}  // namespace

CertainBytes CertainMemory(const Job& job, const LoadedModel& loaded) {
  const bool half = job.precision == Precision::kBf16 || job.precision == Precision::kFp16;
  const Bytes parameters = half ? 2 * loaded.parameters : loaded.parameter_bytes;
  CertainBytes certain;
  certain.weights = parameters + (half ? 0 : loaded.buffer_bytes);
  if (job.mode == Mode::kTrain) {
    certain.gradients = parameters;
    certain.optimizer_state = parameters * StateTensors(job.optimizer);
  }
  return certain;
}

}  // namespace memmodel
