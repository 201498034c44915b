#include "src/step/grad_scaler.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <map>
#include <utility>

namespace memmodel::step {

at::Tensor GradScaler::Scale(const at::Tensor& loss) {
  if (!scale_.defined()) {
    const at::TensorOptions options = at::TensorOptions().device(loss.device());
    scale_ = at::full({}, 65536.0, options.dtype(at::kFloat));
    growth_tracker_ = at::full({}, 0, options.dtype(at::kInt));
  }
  return loss * scale_;
}

at::Tensor GradScaler::CheckAndUnscale(Optimizer& optimizer, const at::Tensor& inv_scale,
                                       const at::Tensor& zero) {
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, TensorList> by_dtype;
  for (const NamedTensor& parameter : optimizer.parameters()) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (grad.defined()) by_dtype[grad.scalar_type()].push_back(grad);
  }
  // _MultiDeviceReplicator copies even to the device that a tensor is on.
  at::Tensor found_inf = zero.clone();
  const at::Tensor replica = inv_scale.clone();
  for (auto& [dtype, grads] : by_dtype) {
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, replica);
  }
  return found_inf;
}

void GradScaler::Unscale(Optimizer& optimizer) {
  at::Tensor inv_scale = scale_.to(at::kDouble);
  inv_scale = inv_scale.reciprocal();
  inv_scale = inv_scale.to(at::kFloat);
  const at::Tensor zero = at::full({}, 0.0, scale_.options());
  found_inf_ = CheckAndUnscale(optimizer, inv_scale, zero);
}

void GradScaler::Step(Optimizer& optimizer) {
  if (!optimizer.TakesScaler()) {
    if (!found_inf_.defined()) Unscale(optimizer);
    optimizer.Step();
    return;
  }
  const bool unscaled = found_inf_.defined();
  if (!unscaled) {
    const at::Tensor one = at::full({}, 1.0, scale_.options());
    const at::Tensor zero = at::full({}, 0.0, scale_.options());
    found_inf_ = CheckAndUnscale(optimizer, one, zero);
  }
  at::Tensor found_inf = found_inf_ + 0;
  at::Tensor grad_scale;
  if (!unscaled) grad_scale = scale_ * 1;
  optimizer.SetScaler(std::move(grad_scale), std::move(found_inf));
  optimizer.Step();
  optimizer.SetScaler({}, {});
}

void GradScaler::Update() {
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, 2.0, 0.5, 2000);
  found_inf_.reset();
}

}  // namespace memmodel::step
