// A Job: what is trained, and how, as the user asked for it. The names and
// defaults are PyTorch's.
#ifndef MEMMODEL_JOB_H_
#define MEMMODEL_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"

namespace memmodel {

// One input of the model, without its batch dimension, which stands first.
struct InputSpec {
  std::string name;                 // "" if the position alone says which
  std::vector<std::int64_t> shape;  // may be empty: one number a sample
  std::string dtype;                // "float32", "int64", ...; "" if the model decides
  bool assumed = false;             // found by trying, not given
};

// Parses [name=]shape[:dtype]: "3x224x224", "tokens=512:int64". Dimensions are
// positive and their product is below 2^40.
Result<InputSpec> ParseInputSpec(std::string_view text);
std::string FormatInputSpec(const InputSpec& spec);

struct OptimizerSpec {
  std::string name = "adamw";  // torch.optim's, in lower case
  std::vector<std::pair<std::string, std::string>> options;  // "momentum" -> "0.9"
};

// Parses NAME[:key=value,...]: "sgd:momentum=0.9", "adamw:fused=true". An
// unknown name or option is refused with the nearest one. "custom:states=2" is
// an optimizer that keeps that many tensors of each parameter's size.
Result<OptimizerSpec> ParseOptimizer(std::string_view text);
std::string FormatOptimizer(const OptimizerSpec& spec);

enum class Precision : std::uint8_t { kFp32, kAmpBf16, kAmpFp16, kBf16, kFp16 };
enum class Loss : std::uint8_t { kAuto, kCrossEntropy, kMse, kSum, kOutput };
enum class Mode : std::uint8_t { kTrain, kInfer };
// Which tensors of the step before are alive in the next one.
enum class StepProtocol : std::uint8_t {
  kLoop,     // the usual Python loop: batch, output and loss live until assigned again
  kMinimal,  // batch and target stay on the GPU; output and loss go at the end of each step
  kFresh,    // batch and target are made in each step; the output lives in the loss's graph
};
enum class DeviceKind : std::uint8_t { kVirtual, kCuda };

// The names that the command line, the child and JSON use: "amp-bf16", "ce",
// "infer", "minimal", "cuda".
std::string_view Name(Precision value);
std::string_view Name(Loss value);
std::string_view Name(Mode value);
std::string_view Name(StepProtocol value);
std::string_view Name(DeviceKind value);

// The value with this name; InvalidArgument with all names and the nearest.
Result<Precision> ParsePrecision(std::string_view name);
Result<Loss> ParseLoss(std::string_view name);
Result<Mode> ParseMode(std::string_view name);
Result<StepProtocol> ParseStepProtocol(std::string_view name);
Result<DeviceKind> ParseDeviceKind(std::string_view name);

struct Job {
  std::string model;              // path of a .pt or .pt2 file
  std::vector<InputSpec> inputs;  // empty: found by trying what the first layer allows
  OptimizerSpec optimizer;        // what most people train with today
  Precision precision = Precision::kFp32;
  Loss loss = Loss::kAuto;  // one that fits the output
  Mode mode = Mode::kTrain;
  int accumulate = 1;  // micro-batches for each optimizer step
  bool channels_last = false;
  bool cudnn_benchmark = false;
  StepProtocol step_protocol = StepProtocol::kLoop;
  DeviceKind device = DeviceKind::kVirtual;
  std::string alloc_conf;  // as PYTORCH_ALLOC_CONF
  double clip_grad_norm = 0;  // torch.nn.utils.clip_grad_norm_ before each optimizer step; 0: none
  bool ema = false;           // a second copy of the weights, updated after each step
  std::string checkpoint;     // modules under activation checkpointing, as fnmatch(3)
};

}  // namespace memmodel

#endif  // MEMMODEL_JOB_H_
