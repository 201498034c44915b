#include "memmodel/job.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "src/core/nearest.h"

namespace memmodel {
namespace {

constexpr std::int64_t kLargestSample = std::int64_t{1} << 40;  // elements

struct OptimizerOptions {
  std::string_view name;
  std::vector<std::string> options;
};

// torch.optim of torch 2.11: the optimizers whose state is a function of the
// parameters' shapes, with the options of their constructors.
const std::vector<OptimizerOptions>& Optimizers() {
  static const std::vector<OptimizerOptions> all = {
      {"adadelta", {"lr", "rho", "eps", "weight_decay", "foreach", "capturable", "maximize"}},
      {"adafactor", {"lr", "beta2_decay", "eps", "d", "weight_decay", "foreach", "maximize"}},
      {"adagrad",
       {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "foreach", "maximize",
        "fused"}},
      {"adam",
       {"lr", "betas", "eps", "weight_decay", "amsgrad", "foreach", "maximize", "capturable",
        "fused"}},
      {"adamax", {"lr", "betas", "eps", "weight_decay", "foreach", "maximize", "capturable"}},
      {"adamw",
       {"lr", "betas", "eps", "weight_decay", "amsgrad", "foreach", "maximize", "capturable",
        "fused"}},
      {"asgd", {"lr", "lambd", "alpha", "t0", "weight_decay", "foreach", "maximize", "capturable"}},
      {"muon",
       {"lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps",
        "adjust_lr_fn"}},
      {"nadam",
       {"lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay", "foreach",
        "maximize", "capturable"}},
      {"radam",
       {"lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "foreach", "maximize",
        "capturable"}},
      {"rmsprop",
       {"lr", "alpha", "eps", "weight_decay", "momentum", "centered", "foreach", "maximize",
        "capturable"}},
      {"rprop", {"lr", "etas", "step_sizes", "foreach", "maximize", "capturable"}},
      {"sgd",
       {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach", "fused"}},
      {"custom", {"states"}},
  };
  return all;
}

std::string Join(std::span<const std::string> names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

constexpr std::array<std::string_view, 5> kPrecisions = {"fp32", "amp-bf16", "amp-fp16", "bf16",
                                                         "fp16"};
constexpr std::array<std::string_view, 5> kLosses = {"auto", "ce", "mse", "sum", "output"};
constexpr std::array<std::string_view, 2> kModes = {"train", "infer"};
constexpr std::array<std::string_view, 3> kStepProtocols = {"loop", "minimal", "fresh"};
constexpr std::array<std::string_view, 2> kDeviceKinds = {"virtual", "cuda"};

// The enumerator whose name stands at the same place in `names`.
template <typename Enum>
Result<Enum> ParseName(std::string_view what, std::string_view name,
                       std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  const std::vector<std::string> all(names.begin(), names.end());
  return Status::InvalidArgument("unknown " + std::string(what) + " '" + std::string(name) +
                                 "'; it is one of " + Join(all) + DidYouMean(name, all));
}

}  // namespace

std::string_view Name(Precision value) { return kPrecisions[static_cast<std::size_t>(value)]; }
std::string_view Name(Loss value) { return kLosses[static_cast<std::size_t>(value)]; }
std::string_view Name(Mode value) { return kModes[static_cast<std::size_t>(value)]; }
std::string_view Name(StepProtocol value) {
  return kStepProtocols[static_cast<std::size_t>(value)];
}
std::string_view Name(DeviceKind value) { return kDeviceKinds[static_cast<std::size_t>(value)]; }

Result<Precision> ParsePrecision(std::string_view name) {
  return ParseName<Precision>("--precision", name, kPrecisions);
}
Result<Loss> ParseLoss(std::string_view name) { return ParseName<Loss>("--loss", name, kLosses); }
Result<Mode> ParseMode(std::string_view name) { return ParseName<Mode>("--mode", name, kModes); }
Result<StepProtocol> ParseStepProtocol(std::string_view name) {
  return ParseName<StepProtocol>("--step-protocol", name, kStepProtocols);
}
Result<DeviceKind> ParseDeviceKind(std::string_view name) {
  return ParseName<DeviceKind>("--device", name, kDeviceKinds);
}

Result<InputSpec> ParseInputSpec(std::string_view text) {
  const std::string what = "--input '" + std::string(text) + "': ";
  InputSpec spec;
  std::string_view rest = text;
  if (const std::size_t equals = rest.find('='); equals != std::string_view::npos) {
    spec.name = rest.substr(0, equals);
    rest.remove_prefix(equals + 1);
    if (spec.name.empty()) return Status::InvalidArgument(what + "no name before '='");
  }
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    spec.dtype = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    static const std::vector<std::string> dtypes = {"float32", "float64", "float16", "bfloat16",
                                                    "int64",   "int32",   "int16",   "int8",
                                                    "uint8",   "bool"};
    if (std::find(dtypes.begin(), dtypes.end(), spec.dtype) == dtypes.end()) {
      return Status::InvalidArgument(what + "unknown dtype '" + spec.dtype + "'; it is one of " +
                                     Join(dtypes) + DidYouMean(spec.dtype, dtypes));
    }
  }
  std::int64_t elements = 1;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('x'), rest.size());
    const std::string_view digits = rest.substr(0, end);
    std::int64_t size = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size() || size <= 0) {
      return Status::InvalidArgument(what + "'" + std::string(digits) +
                                     "' is no positive dimension; expected [name=]shape[:dtype] "
                                     "without the batch dimension, such as 3x224x224 or "
                                     "tokens=512:int64");
    }
    if (size > kLargestSample / elements) {
      return Status::InvalidArgument(what + "one sample has more than 2^40 elements");
    }
    elements *= size;
    spec.shape.push_back(size);
    if (end + 1 == rest.size()) return Status::InvalidArgument(what + "nothing after the last 'x'");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (spec.shape.empty() && text.find("()") == std::string_view::npos && spec.name.empty() &&
      spec.dtype.empty()) {
    return Status::InvalidArgument(what + "expected [name=]shape[:dtype], such as 3x224x224");
  }
  return spec;
}

std::string FormatInputSpec(const InputSpec& spec) {
  std::string text = spec.name.empty() ? "" : spec.name + "=";
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i > 0) text += 'x';
    text += std::to_string(spec.shape[i]);
  }
  if (!spec.dtype.empty()) text += ":" + spec.dtype;
  return text;
}

Result<OptimizerSpec> ParseOptimizer(std::string_view text) {
  OptimizerSpec spec;
  const std::size_t colon = std::min(text.find(':'), text.size());
  spec.name = text.substr(0, colon);
  std::transform(spec.name.begin(), spec.name.end(), spec.name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const OptimizerOptions* optimizer = nullptr;
  std::vector<std::string> names;
  for (const OptimizerOptions& o : Optimizers()) {
    names.emplace_back(o.name);
    if (o.name == spec.name) optimizer = &o;
  }
  if (optimizer == nullptr) {
    return Status::InvalidArgument("unknown optimizer '" + std::string(text.substr(0, colon)) +
                                   "'; it is one of " + Join(names) +
                                   DidYouMean(spec.name, names));
  }
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size()) {
      return Status::InvalidArgument("--optimizer: expected key=value, found '" +
                                     std::string(item) + "'");
    }
    const std::string key(item.substr(0, equals));
    if (std::find(optimizer->options.begin(), optimizer->options.end(), key) ==
        optimizer->options.end()) {
      return Status::InvalidArgument("optimizer " + spec.name + " has no option '" + key +
                                     "'; it has " + Join(optimizer->options) +
                                     DidYouMean(key, optimizer->options));
    }
    spec.options.emplace_back(key, std::string(item.substr(equals + 1)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return spec;
}

std::string FormatOptimizer(const OptimizerSpec& spec) {
  std::string text = spec.name;
  char separator = ':';
  for (const auto& [key, value] : spec.options) {
    text += separator + key + "=" + value;
    separator = ',';
  }
  return text;
}

}  // namespace memmodel
