#include "src/step/grad_scaler.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <map>

namespace memmodel::step {

at::Tensor GradScaler::Scale(const at::Tensor& loss) {
  if (!scale_.defined()) {
    const at::TensorOptions options = at::TensorOptions().device(loss.device());
    scale_ = at::full({}, 65536.0, options.dtype(at::kFloat));
    growth_tracker_ = at::full({}, 0, options.dtype(at::kInt));
  }
  return loss * scale_;
}

at::Tensor GradScaler::CheckAndUnscale(Optimizer& optimizer, const at::Tensor& inv_scale) {
  at::Tensor found_inf = at::full({}, 0.0, scale_.options());
  const at::NoGradGuard no_grad;
  std::map<at::ScalarType, TensorList> by_dtype;
  for (const NamedTensor& parameter : optimizer.parameters()) {
    const at::Tensor& grad = parameter.tensor.grad();
    if (grad.defined()) by_dtype[grad.scalar_type()].push_back(grad);
  }
  for (auto& [dtype, grads] : by_dtype) {
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv_scale);
  }
  return found_inf;
}

void GradScaler::Unscale(Optimizer& optimizer) {
  const at::Tensor inv_scale = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  found_inf_ = CheckAndUnscale(optimizer, inv_scale);
}

void GradScaler::Step(Optimizer& optimizer) {
  if (optimizer.TakesScaler()) {
    at::Tensor grad_scale;
    if (!found_inf_.defined()) {
      const at::Tensor one = at::full({}, 1.0, scale_.options());
      found_inf_ = CheckAndUnscale(optimizer, one);
      grad_scale = scale_ * 1;
    }
    optimizer.SetScaler(grad_scale, 0 + found_inf_);
    optimizer.Step();
    optimizer.SetScaler({}, {});
    return;
  }
  if (!found_inf_.defined()) Unscale(optimizer);
  optimizer.Step();
}

void GradScaler::Update() {
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, 2.0, 0.5, 2000);
  found_inf_.reset();
}

}  // namespace memmodel::step
