// Whole numbers and booleans on the virtual GPU whose values are known, and what follows from
// them: labels that the script sent and compares, the elements that a mask selects.
#ifndef MEMMODEL_SRC_TRACER_KNOWN_VALUES_H_
#define MEMMODEL_SRC_TRACER_KNOWN_VALUES_H_

#include <ATen/record_function.h>
#include <torch/library.h>

#include <optional>

namespace memmodel::tracer {

// The values of `tensor` on the CPU; nothing if it has others than whole numbers and booleans, more
// than 2^20 elements, or was written to since it was made (its version says so): bytes that
// a kernel changed still count as known in the virtual GPU.
std::optional<at::Tensor> KnownValues(const at::Tensor& tensor);

// An operator that only reads its arguments and makes its results anew, as it begins.
struct FollowedCall {
  c10::OperatorHandle op;
  torch::jit::Stack arguments;  // on the CPU
};

// Nothing if `function` is no such operator, or not all of its arguments are known.
std::optional<FollowedCall> Follow(const at::RecordFunction& function);

// Its results, computed on the CPU; empty if that fails.
torch::jit::Stack Compute(const FollowedCall& call);

// At its end: computes those of its `outputs` that are whole numbers or booleans on the virtual
// GPU, and tells it their bytes.
void TellOutputs(const FollowedCall& call, c10::ArrayRef<c10::IValue> outputs);

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_KNOWN_VALUES_H_
