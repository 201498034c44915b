// torch/optim/nadam.py, radam.py and adamax.py of PyTorch 2.11. NAdam and RAdam
// without capturable=True.
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

// What the three share: options, state and the first lines of each update.
class AdamKin : public Optimizer {
 public:
  AdamKin(OptimizerOptions& options, std::vector<NamedTensor> parameters, double lr,
          bool can_decouple, bool can_capture)
      : Optimizer(std::move(parameters), {"step", "exp_avg", "exp_avg_sq", "mu_product"}),
        lr_(options.Number("lr", lr)),
        beta1_(options.Entry("betas", 0, 0.9)),
        beta2_(options.Entry("betas", 1, 0.999)),
        eps_(options.Number("eps", 1e-8)),
        weight_decay_(options.Number("weight_decay", 0)),
        maximize_(options.Flag("maximize", false)),
        decoupled_(can_decouple && options.Flag("decoupled_weight_decay", false)),
        capturable_(can_capture && options.Flag("capturable", false)),
        implementation_(options.ReadImplementation(/*has_fused=*/false)) {}

 protected:
  enum Slot : std::size_t { kStep, kExpAvg, kExpAvgSq, kMuProduct };

  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      State(kStep, k) = NewStep(active.params[i], capturable_);
      State(kExpAvg, k) = at::zeros_like(active.params[i]);
      State(kExpAvgSq, k) = at::zeros_like(active.params[i]);
    }
    if (implementation_ == Implementation::kForeach) {
      for (const Active& group : Groups(active)) {
        grads_ = group.grads;
        Foreach(group, Gather(kStep, group.index), Gather(kExpAvg, group.index),
                Gather(kExpAvgSq, group.index));
      }
    } else {
      for (std::size_t i = 0; i < active.index.size(); ++i) {
        at::Tensor param = active.params[i];
        grad_ = maximize_ ? -active.grads[i] : active.grads[i];
        const std::size_t k = active.index[i];
        State(kStep, k).add_(1);
        SingleTensor(param, k, State(kStep, k).is_cpu() ? State(kStep, k).item<double>() : 0);
      }
    }
    grads_.clear();
    grad_.reset();
    temporaries_.clear();
    temporary_.reset();
  }

  virtual void Foreach(const Active& group, TensorList steps, TensorList exp_avg,
                       TensorList exp_avg_sq) = 0;
  virtual void SingleTensor(at::Tensor& param, std::size_t k, double step) = 0;

  void Decay(const Active& group) {
    if (weight_decay_ == 0) return;
    if (decoupled_) {
      at::_foreach_mul_(group.params, 1 - lr_ * weight_decay_);
    } else if (maximize_) {
      at::_foreach_add_(grads_, group.params, weight_decay_);
    } else {
      grads_ = at::_foreach_add(grads_, group.params, weight_decay_);
    }
  }

  void Decay(at::Tensor& param) {
    if (weight_decay_ == 0) return;
    if (decoupled_) {
      param.mul_(1 - lr_ * weight_decay_);
    } else {
      grad_ = grad_.add(param, weight_decay_);
    }
  }

  void Average(TensorList& exp_avg, TensorList& exp_avg_sq) {
    at::_foreach_lerp_(exp_avg, grads_, 1 - beta1_);
    at::_foreach_mul_(exp_avg_sq, beta2_);
    at::_foreach_addcmul_(exp_avg_sq, grads_, grads_, 1 - beta2_);
  }

  double lr_;
  double beta1_;
  double beta2_;
  double eps_;
  double weight_decay_;
  bool maximize_;
  bool decoupled_;
  bool capturable_;
  Implementation implementation_;
  // Variables of the Python functions' loops, alive from one turn to the next.
  TensorList grads_;
  TensorList temporaries_;
  at::Tensor grad_;
  at::Tensor temporary_;
};

class NAdam : public AdamKin {
 public:
  NAdam(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, std::move(parameters), 2e-3, /*can_decouple=*/true,
                /*can_capture=*/false),
        momentum_decay_(options.Number("momentum_decay", 4e-3)),
        mu_products_(this->parameters().size(), 1.0) {}

 protected:
  // mu_product is a scalar on the CPU, as step.
  void Foreach(const Active& group, TensorList steps, TensorList exp_avg,
               TensorList exp_avg_sq) override {
    if (maximize_) grads_ = at::_foreach_neg(grads_);
    AdvanceSteps(steps);
    Decay(group);
    Average(exp_avg, exp_avg_sq);
    temporaries_ = at::_foreach_sqrt(exp_avg_sq);
    std::vector<at::Scalar> correction, step_size_grads, step_size_averages;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double t = steps[i].item<double>();
      const auto [grad, average] = Sizes(group.index[i], t);
      correction.emplace_back(std::sqrt(1 - std::pow(beta2_, t)));
      step_size_grads.emplace_back(grad);
      step_size_averages.emplace_back(average);
    }
    at::_foreach_div_(temporaries_, correction);
    at::_foreach_add_(temporaries_, eps_);
    at::_foreach_addcdiv_(group.params, grads_, temporaries_, step_size_grads);
    at::_foreach_addcdiv_(group.params, exp_avg, temporaries_, step_size_averages);
  }

  void SingleTensor(at::Tensor& param, std::size_t k, double step) override {
    Decay(param);
    const auto [grad_size, average_size] = Sizes(k, step);
    State(kExpAvg, k).lerp_(grad_, 1 - beta1_);
    State(kExpAvgSq, k).mul_(beta2_).addcmul_(grad_, grad_, 1 - beta2_);
    temporary_ = State(kExpAvgSq, k).div(1 - std::pow(beta2_, step)).sqrt();
    temporary_.add_(eps_);
    param.addcdiv_(grad_, temporary_, grad_size);
    param.addcdiv_(State(kExpAvg, k), temporary_, average_size);
  }

 private:
  std::pair<double, double> Sizes(std::size_t k, double t) {
    const double mu = beta1_ * (1 - 0.5 * std::pow(0.96, t * momentum_decay_));
    const double next = beta1_ * (1 - 0.5 * std::pow(0.96, (t + 1) * momentum_decay_));
    double& product = mu_products_[k];
    product *= mu;
    return {-lr_ * (1 - mu) / (1 - product), -lr_ * next / (1 - product * next)};
  }

  double momentum_decay_;
  std::vector<double> mu_products_;
};

class RAdam : public AdamKin {
 public:
  RAdam(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, std::move(parameters), 1e-3, /*can_decouple=*/true,
                /*can_capture=*/false) {}

 protected:
  void Foreach(const Active& group, TensorList steps, TensorList exp_avg,
               TensorList exp_avg_sq) override {
    AdvanceSteps(steps);
    if (maximize_) grads_ = at::_foreach_neg(grads_);
    Decay(group);
    Average(exp_avg, exp_avg_sq);
    grads_.clear();
    std::vector<at::Scalar> rectified, unrectified;
    for (const at::Tensor& step : steps) {
      const double t = step.item<double>();
      const double rect = Rectification(t);
      const double correction1 = 1 - std::pow(beta1_, t);
      unrectified.emplace_back(rect > 0 ? 0.0 : -lr_ / correction1);
      rectified.emplace_back(-std::sqrt(1 - std::pow(beta2_, t)) * lr_ * rect / correction1);
    }
    temporaries_ = at::_foreach_sqrt(exp_avg_sq);
    at::_foreach_add_(temporaries_, eps_);
    at::_foreach_div_(temporaries_, rectified);
    at::_foreach_reciprocal_(temporaries_);
    at::_foreach_add_(temporaries_, unrectified);
    at::_foreach_addcmul_(group.params, exp_avg, temporaries_);
  }

  void SingleTensor(at::Tensor& param, std::size_t k, double step) override {
    Decay(param);
    State(kExpAvg, k).lerp_(grad_, 1 - beta1_);
    State(kExpAvgSq, k).mul_(beta2_).addcmul_(grad_, grad_, 1 - beta2_);
    temporary_ = State(kExpAvg, k) / (1 - std::pow(beta1_, step));
    const double rect = Rectification(step);
    if (rect > 0) {
      const at::Tensor scaled = temporary_ * lr_;
      const at::Tensor adaptive = State(kExpAvgSq, k).sqrt().add_(eps_).reciprocal() *
                                  std::sqrt(1 - std::pow(beta2_, step));
      param.add_(scaled * adaptive * rect, -1.0);
    } else {
      param.add_(temporary_ * lr_, -1.0);
    }
  }

 private:
  [[nodiscard]] double Rectification(double t) const {
    const double inf = 2 / (1 - beta2_) - 1;
    const double power = std::pow(beta2_, t);
    const double rho = inf - 2 * t * power / (1 - power);
    return rho > 5 ? std::sqrt((rho - 4) * (rho - 2) * inf / ((inf - 4) * (inf - 2) * rho)) : 0;
  }
};

// exp_avg_sq is Adamax's exp_inf.
class Adamax : public AdamKin {
 public:
  Adamax(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, std::move(parameters), 2e-3, /*can_decouple=*/false,
                /*can_capture=*/true) {}

 protected:
  void Foreach(const Active& group, TensorList steps, TensorList exp_avg,
               TensorList exp_inf) override {
    if (maximize_) grads_ = at::_foreach_neg(grads_);
    AdvanceSteps(steps);
    Decay(group);
    at::_foreach_lerp_(exp_avg, grads_, 1 - beta1_);
    at::_foreach_mul_(exp_inf, beta2_);
    if (!maximize_ && weight_decay_ == 0) {
      grads_ = at::_foreach_abs(grads_);
    } else {
      at::_foreach_abs_(grads_);
    }
    at::_foreach_add_(grads_, eps_);
    at::_foreach_maximum_(exp_inf, grads_);
    if (capturable_) {
      TensorList corrections = at::_foreach_pow(beta1_, steps);
      at::_foreach_sub_(corrections, 1);
      at::_foreach_div_(corrections, lr_);
      temporaries_ = at::_foreach_mul(exp_inf, corrections);
      at::_foreach_addcdiv_(group.params, exp_avg, temporaries_);
      return;
    }
    std::vector<at::Scalar> sizes;
    for (const at::Tensor& step : steps) {
      sizes.emplace_back(-lr_ / (1 - std::pow(beta1_, step.item<double>())));
    }
    at::_foreach_addcdiv_(group.params, exp_avg, exp_inf, sizes);
  }

  void SingleTensor(at::Tensor& param, std::size_t k, double step) override {
    at::Tensor& exp_inf = State(kExpAvgSq, k);
    Decay(param);
    State(kExpAvg, k).lerp_(grad_, 1 - beta1_);
    exp_inf.mul_(beta2_);
    at::maximum_out(exp_inf, exp_inf, grad_.abs().add_(eps_));
    if (capturable_) {
      const at::Tensor correction = (at::pow(beta1_, State(kStep, k)) - 1).div_(lr_);
      temporary_ = exp_inf * correction;
      param.addcdiv_(State(kExpAvg, k), temporary_);
    } else {
      param.addcdiv_(State(kExpAvg, k), exp_inf, -lr_ / (1 - std::pow(beta1_, step)));
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeNAdam(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<NAdam>(options, std::move(p));
}
std::unique_ptr<Optimizer> MakeRAdam(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<RAdam>(options, std::move(p));
}
std::unique_ptr<Optimizer> MakeAdamax(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Adamax>(options, std::move(p));
}

}  // namespace memmodel::step
