// From a network's output to a scalar that backward can start from.
#ifndef MEMMODEL_SRC_STEP_LOSS_H_
#define MEMMODEL_SRC_STEP_LOSS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

struct LossPlan {
  std::string kind;  // ce, mse, sum, output; none (infer: no loss is computed)
  // Where the tensor is in the output: "" if the output is it, else a key of a
  // dictionary, a field or an index ("out", "0").
  std::string member;
  // Of the target, its batch dimension included, for `batch` samples; empty if the
  // loss takes no target.
  std::vector<std::int64_t> target_shape;
  std::int64_t batch = 0;
  at::ScalarType target_dtype = at::kLong;
};

// Chooses member and loss for `output`, which came from `batch` samples. `requested`
// is the job's loss; auto: a scalar output (or "loss") is the loss; floating-point
// logits (N, C, ...) get cross-entropy; anything else its sum.
Result<LossPlan> PlanLoss(const c10::IValue& output, const std::string& requested,
                          std::int64_t batch);

// The planned tensor of `output`; all others die with `output`.
at::Tensor TakeMember(c10::IValue output, const LossPlan& plan);

at::Tensor ComputeLoss(const LossPlan& plan, const at::Tensor& output, const at::Tensor& target);

// All tensors in a tensor, tuple, list, dictionary or object, in order.
std::vector<at::Tensor> TensorsIn(const c10::IValue& value);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_LOSS_H_
