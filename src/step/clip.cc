// torch/nn/utils/clip_grad.py and torch/optim/swa_utils.py of PyTorch 2.11.
#include "src/step/clip.h"

#include <ATen/ATen.h>
#include <ATen/native/ForeachUtils.h>
#include <c10/core/GradMode.h>

namespace memmodel::step {
namespace {

// By device and dtype, in Python's order.
std::vector<std::vector<at::Tensor>> GroupTensors(const std::vector<at::Tensor>& tensors) {
  const std::vector<std::optional<at::Tensor>> list(tensors.begin(), tensors.end());
  std::vector<std::vector<at::Tensor>> groups;
  for (const auto& [key, entry] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype({list}, false)) {
    std::vector<at::Tensor>& group = groups.emplace_back();
    for (const std::optional<at::Tensor>& tensor : entry.first[0]) group.push_back(*tensor);
  }
  return groups;
}

}  // namespace

void ClipGradNorm(const std::vector<NamedTensor>& parameters, double max_norm) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  for (const NamedTensor& parameter : parameters) {
    if (parameter.tensor.grad().defined()) grads.push_back(parameter.tensor.grad());
  }
  if (grads.empty()) return;
  at::Tensor total;
  {
    std::vector<at::Tensor> norms;
    for (const auto& group : GroupTensors(grads)) {
      for (at::Tensor& norm : at::_foreach_norm(group, 2.0)) norms.push_back(std::move(norm));
    }
    total = at::linalg_vector_norm(at::stack(norms), 2.0);
  }
  const at::Tensor coefficient = [&] {  // max_norm / (total + 1e-6), as Tensor.__rtruediv__
    const at::Tensor sum = total + 1e-6;
    const at::Tensor reciprocal = sum.reciprocal();
    return reciprocal * max_norm;
  }();
  const at::Tensor clamped = at::clamp(coefficient, std::nullopt, 1.0);
  for (const auto& group : GroupTensors(grads)) at::_foreach_mul_(group, clamped);
}

std::vector<at::Tensor> StartAverage(const std::vector<NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> average;
  for (const NamedTensor& parameter : parameters) {
    average.push_back(parameter.tensor.detach().clone());
  }
  return average;
}

void UpdateAverage(std::vector<at::Tensor>& average, const std::vector<NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> weights;
  for (const NamedTensor& parameter : parameters) weights.push_back(parameter.tensor.detach());
  at::_foreach_lerp_(average, weights, 1e-3);
}

}  // namespace memmodel::step
