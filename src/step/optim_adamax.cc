// torch/optim/adamax.py of PyTorch 2.11.
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optim_adam_kin.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kAdamax = {.lr = 2e-3};

// exp_avg_sq is Adamax's exp_inf.
class Adamax : public AdamKin {
 public:
  Adamax(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, kAdamax, std::move(parameters), {"step", "exp_avg", "exp_inf"},
                /*can_decouple=*/false) {}

 private:
  void Foreach(const Active& active) override {
    TensorList denominator, corrections, grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList exp_avg = Gather(kExpAvg, group.index);
      TensorList exp_inf = Gather(kExpAvgSq, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      Decay(grads, group.params);
      at::_foreach_lerp_(exp_avg, grads, 1 - beta1_);
      at::_foreach_mul_(exp_inf, beta2_);
      if (!maximize_ && weight_decay_ == 0) {
        grads = at::_foreach_abs(grads);
      } else {
        at::_foreach_abs_(grads);
      }
      at::_foreach_add_(grads, eps_);
      at::_foreach_maximum_(exp_inf, grads);
      if (capturable_) {
        corrections = at::_foreach_pow(beta1_, steps);
        at::_foreach_sub_(corrections, 1);
        at::_foreach_div_(corrections, lr_);
        denominator = at::_foreach_mul(exp_inf, corrections);
        at::_foreach_addcdiv_(group.params, exp_avg, denominator);
        continue;
      }
      std::vector<at::Scalar> sizes;
      for (const at::Tensor& step : steps) {
        sizes.emplace_back(-lr_ / (1 - std::pow(beta1_, step.item<double>())));
      }
      at::_foreach_addcdiv_(group.params, exp_avg, exp_inf, sizes);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor denominator, correction, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& step = State(kStep, k);
      at::Tensor& exp_inf = State(kExpAvgSq, k);
      Negate(grad, active.grads[i], /*one_statement=*/false);
      step.add_(1);
      Decay(grad, param);
      State(kExpAvg, k).lerp_(grad, 1 - beta1_);
      exp_inf.mul_(beta2_);
      at::maximum_out(exp_inf, exp_inf, grad.abs().add_(eps_));
      if (capturable_) {
        correction = [&] {
          const at::Tensor power = at::pow(beta1_, step);
          return power - 1;
        }();
        correction.div_(lr_);
        denominator = exp_inf * correction;
        param.addcdiv_(State(kExpAvg, k), denominator);
      } else {
        const double size = lr_ / (1 - std::pow(beta1_, step.item<double>()));
        param.addcdiv_(State(kExpAvg, k), exp_inf, -size);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdamax(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Adamax>(options, std::move(p));
}

}  // namespace memmodel::step
