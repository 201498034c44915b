// torch/optim/adam.py and adamw.py of PyTorch 2.11 (AdamW is Adam with decoupled
// weight decay).
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kAdam = {.lr = 1e-3, .has_fused = true};
constexpr OptimizerTraits kAdamW = {.lr = 1e-3, .weight_decay = 1e-2, .has_fused = true};

class Adam : public Optimizer {
 public:
  Adam(OptimizerOptions& options, std::vector<NamedTensor> parameters, bool decoupled)
      : Optimizer(options, decoupled ? kAdamW : kAdam, std::move(parameters),
                  {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        beta1_(options.Entry("betas", 0, 0.9)),
        beta2_(options.Entry("betas", 1, 0.999)),
        eps_(options.Number("eps", 1e-8)),
        amsgrad_(options.Flag("amsgrad", false)),
        decoupled_(options.Flag("decoupled_weight_decay", decoupled)) {}

 private:
  enum Slot : std::size_t { kStep, kExpAvg, kExpAvgSq, kMaxExpAvgSq };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    State(kStep, k) = NewStep(param);
    State(kExpAvg, k) = at::zeros_like(param);
    State(kExpAvgSq, k) = at::zeros_like(param);
    if (amsgrad_) State(kMaxExpAvgSq, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override {
    TensorList denominator;
    TensorList correction2;
    TensorList correction1;
    for (const Active& group : Groups(active)) {
      TensorList grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList exp_avg = Gather(kExpAvg, group.index);
      TensorList exp_avg_sq = Gather(kExpAvgSq, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      if (decoupled_ && weight_decay_ != 0) {
        at::_foreach_mul_(group.params, 1 - lr_ * weight_decay_);
      } else {
        Decay(grads, group.params);
      }
      at::_foreach_lerp_(exp_avg, grads, 1 - beta1_);
      at::_foreach_mul_(exp_avg_sq, beta2_);
      at::_foreach_addcmul_(exp_avg_sq, grads, grads, 1 - beta2_);
      grads.clear();
      const auto root = [&] {
        if (!amsgrad_) return at::_foreach_sqrt(exp_avg_sq);
        TensorList maximum = Gather(kMaxExpAvgSq, group.index);
        at::_foreach_maximum_(maximum, exp_avg_sq);
        return at::_foreach_sqrt(maximum);
      };
      if (capturable_) {
        correction1 = at::_foreach_pow(beta1_, steps);
        correction2 = at::_foreach_pow(beta2_, steps);
        at::_foreach_sub_(correction1, 1);
        at::_foreach_sub_(correction2, 1);
        at::_foreach_neg_(correction2);
        at::_foreach_div_(correction1, lr_);
        at::_foreach_reciprocal_(correction1);
        at::_foreach_sqrt_(correction2);
        denominator = root();
        at::_foreach_div_(denominator, correction2);
        at::_foreach_add_(denominator, eps_);
        at::_foreach_div_(denominator, correction1);
        at::_foreach_addcdiv_(group.params, exp_avg, denominator);
      } else {
        std::vector<at::Scalar> step_size;
        std::vector<at::Scalar> correction2_sqrt;
        for (const at::Tensor& step : steps) {
          const double t = step.item<double>();
          step_size.emplace_back(-lr_ / (1 - std::pow(beta1_, t)));
          correction2_sqrt.emplace_back(std::sqrt(1 - std::pow(beta2_, t)));
        }
        denominator = root();
        at::_foreach_div_(denominator, correction2_sqrt);
        at::_foreach_add_(denominator, eps_);
        at::_foreach_addcdiv_(group.params, exp_avg, denominator, step_size);
      }
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor denominator, correction2_sqrt, step_size_neg, step_size, correction2, correction1;
    at::Tensor grad;
    for (std::size_t i = 0; i < active.params.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& step = State(kStep, k);
      at::Tensor& exp_avg = State(kExpAvg, k);
      at::Tensor& exp_avg_sq = State(kExpAvgSq, k);
      Negate(grad, active.grads[i], /*one_statement=*/true);
      step.add_(1);
      if (decoupled_ && weight_decay_ != 0) {
        param.mul_(1 - lr_ * weight_decay_);
      } else {
        Decay(grad, param);
      }
      exp_avg.lerp_(grad, 1 - beta1_);
      exp_avg_sq.mul_(beta2_).addcmul_(grad, grad, 1 - beta2_);
      at::Tensor& root_of = amsgrad_ ? State(kMaxExpAvgSq, k) : exp_avg_sq;
      if (capturable_) {
        const auto correction = [&](double beta) {
          const at::Tensor power = at::pow(beta, step);
          return at::rsub(power, 1);
        };
        correction1 = correction(beta1_);
        correction2 = correction(beta2_);
        step_size = Divide(lr_, correction1);
        step_size_neg = step_size.neg();
        correction2_sqrt = correction2.sqrt();
        if (amsgrad_) root_of.copy_(at::maximum(root_of, exp_avg_sq));
        denominator = [&] {
          at::Tensor root = root_of.sqrt();
          at::Tensor scale = correction2_sqrt * step_size_neg;
          at::Tensor quotient = root / scale;
          root.reset();
          scale.reset();
          const at::Tensor eps = Divide(eps_, step_size_neg);
          return quotient.add_(eps);
        }();
        param.addcdiv_(exp_avg, denominator);
      } else {
        const double t = step.item<double>();
        if (amsgrad_) at::maximum_out(root_of, root_of, exp_avg_sq);
        denominator = [&] {
          const at::Tensor root = root_of.sqrt();
          return (root / std::sqrt(1 - std::pow(beta2_, t))).add_(eps_);
        }();
        param.addcdiv_(exp_avg, denominator, -lr_ / (1 - std::pow(beta1_, t)));
      }
    }
  }

  void Fused(const Active& active) override {
    for (const Active& group : Groups(active)) {
      TensorList steps = Gather(kStep, group.index);
      const TensorList exp_avg = Gather(kExpAvg, group.index);
      const TensorList exp_avg_sq = Gather(kExpAvgSq, group.index);
      const TensorList maximum = amsgrad_ ? Gather(kMaxExpAvgSq, group.index) : TensorList();
      at::_foreach_add_(steps, 1);
      if (decoupled_) {
        at::_fused_adamw_(group.params, group.grads, exp_avg, exp_avg_sq, maximum, steps, lr_,
                          beta1_, beta2_, weight_decay_, eps_, amsgrad_, maximize_, grad_scale(),
                          found_inf());
      } else {
        at::_fused_adam_(group.params, group.grads, exp_avg, exp_avg_sq, maximum, steps, lr_,
                         beta1_, beta2_, weight_decay_, eps_, amsgrad_, maximize_, grad_scale(),
                         found_inf());
      }
      if (found_inf()) at::_foreach_sub_(steps, TensorList(steps.size(), *found_inf()));
    }
  }

  double beta1_;
  double beta2_;
  double eps_;
  bool amsgrad_;
  bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(OptimizerOptions& options,
                                    std::vector<NamedTensor> parameters) {
  return std::make_unique<Adam>(options, std::move(parameters), /*decoupled=*/false);
}

std::unique_ptr<Optimizer> MakeAdamW(OptimizerOptions& options,
                                     std::vector<NamedTensor> parameters) {
  return std::make_unique<Adam>(options, std::move(parameters), /*decoupled=*/true);
}

}  // namespace memmodel::step
