// What memmodel-trace is asked and what it answers: the lines of the child
// protocol (docs/architecture.md) as plain structs. No LibTorch here: the small
// program that starts everything reads the job too.
#ifndef MEMMODEL_SRC_STEP_JOB_H_
#define MEMMODEL_SRC_STEP_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"

namespace memmodel::step {

// A value of an optimizer option as JSON gives it: true, 0.9, "name", [0.9, 0.999].
using OptionValue = std::variant<bool, double, std::string, std::vector<double>>;

struct OptimizerSpec {
  std::string name = "adamw";
  std::map<std::string, OptionValue> options;
};

struct InputRequest {
  std::string name;
  std::vector<std::int64_t> shape;  // without the batch dimension
  std::string dtype;                // "" if not given: float32, or what the file says
};

enum class StepProtocol {
  kLoop,     // batch, output and loss of the step before live until they are assigned again
  kMinimal,  // input and target stay; output and loss are dropped at the end of a step
  kFresh,    // input and target live from the start of a step to the end of backward, the
             // output in the loss's graph alone, the loss to the end of the step
};

struct Job {
  std::string model;  // path
  bool virtual_device = true;
  std::vector<InputRequest> inputs;  // empty: what the file says, else found by trying
  OptimizerSpec optimizer;
  std::string precision = "fp32";  // fp32, amp-bf16, amp-fp16, bf16, fp16
  std::string loss = "auto";       // auto, ce, mse, sum, output
  bool training = true;            // false: forward alone, under no_grad
  int accumulate = 1;              // micro-batches a step
  bool channels_last = false;
  bool cudnn_benchmark = false;
  double clip_grad_norm = 0;  // 0: none; else torch.nn.utils.clip_grad_norm_
  bool ema = false;           // a second copy of the weights, updated each step
  std::string checkpoint;     // glob of the modules under activation checkpointing; empty: none
  StepProtocol protocol = StepProtocol::kLoop;
  std::string alloc_conf;        // as PYTORCH_CUDA_ALLOC_CONF
  Bytes memory_limit_bytes = 0;  // host memory a probe may use; 0: no limit
  std::int64_t cpu_limit_s = 0;  // processor time a probe may use; 0: no limit
};

struct Probe {
  std::int64_t id = 0;
  std::int64_t batch = 0;
  int steps = 3;
  Bytes total_bytes = 0;  // of the virtual card; 0: unlimited
  Bytes context_bytes = 0;
  Bytes allocator_limit_bytes = 0;         // 0: none
  bool largest_workspace_fastest = false;  // of plans that cudnn.benchmark times
  std::string trace;                       // file to write; "": no trace
  std::optional<double> unknown_count;     // 1 for "max"
  std::optional<OptimizerSpec> optimizer;  // in place of the job's
};

Result<Job> ParseJob(std::string_view line);
Result<Probe> ParseProbe(std::string_view line);

// One line of the protocol, with its newline.
std::string FormatError(const Status& status, std::string_view op = {},
                        std::string_view module = {});

std::string_view ProtocolName(StepProtocol protocol);  // "loop", "minimal", "fresh"

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_JOB_H_
