// torch/optim/adam.py and adamw.py of PyTorch 2.11 (AdamW is Adam with decoupled
// weight decay).
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

class Adam : public Optimizer {
 public:
  Adam(OptimizerOptions& options, std::vector<NamedTensor> parameters, bool decoupled)
      : Optimizer(std::move(parameters), {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        lr_(options.Number("lr", 1e-3)),
        beta1_(options.Entry("betas", 0, 0.9)),
        beta2_(options.Entry("betas", 1, 0.999)),
        eps_(options.Number("eps", 1e-8)),
        weight_decay_(options.Number("weight_decay", decoupled ? 1e-2 : 0)),
        amsgrad_(options.Flag("amsgrad", false)),
        maximize_(options.Flag("maximize", false)),
        capturable_(options.Flag("capturable", false)),
        decoupled_(options.Flag("decoupled_weight_decay", decoupled)),
        implementation_(options.ReadImplementation(/*has_fused=*/true)) {}

  [[nodiscard]] bool TakesScaler() const override {
    return implementation_ == Implementation::kFused;
  }

 protected:
  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      const at::Tensor& param = active.params[i];
      State(kStep, k) = NewStep(param, capturable_ || implementation_ == Implementation::kFused);
      State(kExpAvg, k) = at::zeros_like(param);
      State(kExpAvgSq, k) = at::zeros_like(param);
      if (amsgrad_) State(kMaxExpAvgSq, k) = at::zeros_like(param);
    }
    switch (implementation_) {
      case Implementation::kForeach:
        return Foreach(active);
      case Implementation::kSingleTensor:
        return SingleTensor(active);
      case Implementation::kFused:
        return Fused(active);
    }
  }

 private:
  enum Slot : std::size_t { kStep, kExpAvg, kExpAvgSq, kMaxExpAvgSq };

  void Foreach(const Active& active) {
    // Variables of the Python loop: what one group leaves in them lives until the
    // next one assigns them.
    TensorList correction1;
    TensorList correction2;
    TensorList denominator;
    for (const Active& group : Groups(active)) {
      TensorList grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList exp_avg = Gather(kExpAvg, group.index);
      TensorList exp_avg_sq = Gather(kExpAvgSq, group.index);
      if (maximize_) grads = at::_foreach_neg(grads);
      AdvanceSteps(steps);
      if (weight_decay_ != 0) {
        if (decoupled_) {
          at::_foreach_mul_(group.params, 1 - lr_ * weight_decay_);
        } else if (maximize_) {
          at::_foreach_add_(grads, group.params, weight_decay_);
        } else {
          grads = at::_foreach_add(grads, group.params, weight_decay_);
        }
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

  void SingleTensor(const Active& active) {
    at::Tensor grad;
    at::Tensor denominator;
    at::Tensor correction1, correction2, step_size, step_size_neg, correction2_sqrt;
    for (std::size_t i = 0; i < active.params.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      grad = maximize_ ? -active.grads[i] : active.grads[i];
      at::Tensor& step = State(kStep, k);
      at::Tensor& exp_avg = State(kExpAvg, k);
      at::Tensor& exp_avg_sq = State(kExpAvgSq, k);
      step.add_(1);
      if (weight_decay_ != 0) {
        if (decoupled_) {
          param.mul_(1 - lr_ * weight_decay_);
        } else {
          grad = grad.add(param, weight_decay_);
        }
      }
      exp_avg.lerp_(grad, 1 - beta1_);
      exp_avg_sq.mul_(beta2_).addcmul_(grad, grad, 1 - beta2_);
      at::Tensor& root_of = amsgrad_ ? State(kMaxExpAvgSq, k) : exp_avg_sq;
      if (capturable_) {
        correction1 = 1 - at::pow(beta1_, step);
        correction2 = 1 - at::pow(beta2_, step);
        step_size = lr_ / correction1;
        step_size_neg = step_size.neg();
        correction2_sqrt = correction2.sqrt();
        if (amsgrad_) root_of.copy_(at::maximum(root_of, exp_avg_sq));
        denominator =
            (root_of.sqrt() / (correction2_sqrt * step_size_neg)).add_(eps_ / step_size_neg);
        param.addcdiv_(exp_avg, denominator);
      } else {
        const double t = step.item<double>();
        if (amsgrad_) at::maximum_out(root_of, root_of, exp_avg_sq);
        denominator = (root_of.sqrt() / std::sqrt(1 - std::pow(beta2_, t))).add_(eps_);
        param.addcdiv_(exp_avg, denominator, -lr_ / (1 - std::pow(beta1_, t)));
      }
    }
  }

  void Fused(const Active& active) {
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

  double lr_;
  double beta1_;
  double beta2_;
  double eps_;
  double weight_decay_;
  bool amsgrad_;
  bool maximize_;
  bool capturable_;
  bool decoupled_;
  Implementation implementation_;
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
