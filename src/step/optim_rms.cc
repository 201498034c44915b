// torch/optim/rmsprop.py and adagrad.py of PyTorch 2.11, and the made-up optimizer
// "custom", which keeps K tensors of the parameter's shape for each parameter.
#include <ATen/ATen.h>

#include <algorithm>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kRmsprop = {.lr = 1e-2};
constexpr OptimizerTraits kAdagrad = {.lr = 1e-2, .has_capturable = false};
constexpr OptimizerTraits kCustom = {
    .has_weight_decay = false, .has_maximize = false, .has_capturable = false};

class Rmsprop : public Optimizer {
 public:
  Rmsprop(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kRmsprop, std::move(parameters),
                  {"step", "square_avg", "momentum_buffer", "grad_avg"}),
        alpha_(options.Number("alpha", 0.99)),
        eps_(options.Number("eps", 1e-8)),
        momentum_(options.Number("momentum", 0)),
        centered_(options.Flag("centered", false)) {}

 private:
  enum Slot : std::size_t { kStep, kSquareAvg, kMomentum, kGradAvg };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    State(kStep, k) = NewStep(param);
    State(kSquareAvg, k) = at::zeros_like(param);
    if (momentum_ > 0) State(kMomentum, k) = at::zeros_like(param);
    if (centered_) State(kGradAvg, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override {
    TensorList average;
    TensorList grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList square_avg = Gather(kSquareAvg, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      Decay(grads, group.params);
      at::_foreach_mul_(square_avg, alpha_);
      at::_foreach_addcmul_(square_avg, grads, grads, 1 - alpha_);
      if (centered_) {
        TensorList grad_avg = Gather(kGradAvg, group.index);
        at::_foreach_lerp_(grad_avg, grads, 1 - alpha_);
        average = at::_foreach_addcmul(square_avg, grad_avg, grad_avg, -1);
        at::_foreach_sqrt_(average);
      } else {
        average = at::_foreach_sqrt(square_avg);
      }
      at::_foreach_add_(average, eps_);
      if (momentum_ > 0) {
        TensorList buffers = Gather(kMomentum, group.index);
        at::_foreach_mul_(buffers, momentum_);
        at::_foreach_addcdiv_(buffers, grads, average);
        at::_foreach_add_(group.params, buffers, -lr_);
      } else {
        at::_foreach_addcdiv_(group.params, grads, average, -lr_);
      }
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor average;
    at::Tensor grad;
    for (std::size_t i = 0; i < active.params.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& square_avg = State(kSquareAvg, k);
      Negate(grad, active.grads[i], /*one_statement=*/false);
      State(kStep, k).add_(1);
      Decay(grad, param);
      square_avg.mul_(alpha_).addcmul_(grad, grad, 1 - alpha_);
      if (centered_) {
        at::Tensor& grad_avg = State(kGradAvg, k);
        grad_avg.lerp_(grad, 1 - alpha_);
        average = square_avg.addcmul(grad_avg, grad_avg, -1).sqrt_();
      } else {
        average = square_avg.sqrt();
      }
      average = average.add_(eps_);
      if (momentum_ > 0) {
        at::Tensor& buffer = State(kMomentum, k);
        buffer.mul_(momentum_).addcdiv_(grad, average);
        param.add_(buffer, -lr_);
      } else {
        param.addcdiv_(grad, average, -lr_);
      }
    }
  }

  double alpha_;
  double eps_;
  double momentum_;
  bool centered_;
};

// Its state is made with the optimizer, for all parameters. fused is not for CUDA.
class Adagrad : public Optimizer {
 public:
  Adagrad(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kAdagrad, std::move(parameters), {"step", "sum"}),
        lr_decay_(options.Number("lr_decay", 0)),
        eps_(options.Number("eps", 1e-10)) {
    const double initial = options.Number("initial_accumulator_value", 0);
    const at::NoGradGuard no_grad;
    for (std::size_t k = 0; k < this->parameters().size(); ++k) {
      const at::Tensor& param = this->parameters()[k].tensor;
      State(kStep, k) = NewStep(param);
      State(kSum, k) = at::full_like(param, initial, param.options().requires_grad(false));
    }
  }

 private:
  enum Slot : std::size_t { kStep, kSum };

  void Start(std::size_t, const at::Tensor&, const at::Tensor&) override {}

  void Foreach(const Active& active) override {
    TensorList numerator;
    TensorList std;
    TensorList grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList sums = Gather(kSum, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      Decay(grads, group.params);
      std::vector<at::Scalar> minus_clr;
      for (const at::Tensor& step : steps) minus_clr.emplace_back(-Rate(step));
      at::_foreach_addcmul_(sums, grads, grads, 1);
      std = at::_foreach_sqrt(sums);
      at::_foreach_add_(std, eps_);
      if (weight_decay_ != 0 || maximize_) {
        at::_foreach_mul_(grads, minus_clr);
        numerator = grads;
      } else {
        numerator = at::_foreach_mul(grads, minus_clr);
      }
      at::_foreach_addcdiv_(group.params, numerator, std);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor std;
    at::Tensor grad;
    for (std::size_t i = 0; i < active.params.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& sum = State(kSum, k);
      State(kStep, k).add_(1);
      Negate(grad, active.grads[i], /*one_statement=*/false);
      Decay(grad, param);
      sum.addcmul_(grad, grad, 1);
      std = sum.sqrt().add_(eps_);
      param.addcdiv_(grad, std, -Rate(State(kStep, k)));
    }
  }

  [[nodiscard]] double Rate(const at::Tensor& step) const {
    return lr_ / (1 + (step.item<double>() - 1) * lr_decay_);
  }

  double lr_decay_;
  double eps_;
};

class Custom : public Optimizer {
 public:
  Custom(OptimizerOptions& options, std::vector<NamedTensor> parameters, std::size_t states)
      : Optimizer(options, kCustom, std::move(parameters), SlotNames(states)), states_(states) {}

 private:
  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    for (std::size_t slot = 0; slot < states_; ++slot) State(slot, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override { at::_foreach_add_(active.params, active.grads, 0); }
  void SingleTensor(const Active& active) override { Foreach(active); }

  static std::vector<std::string> SlotNames(std::size_t states) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < states; ++i) names.push_back("state" + std::to_string(i));
    return names;
  }

  std::size_t states_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeRmsprop(OptimizerOptions& options,
                                       std::vector<NamedTensor> parameters) {
  return std::make_unique<Rmsprop>(options, std::move(parameters));
}

std::unique_ptr<Optimizer> MakeAdagrad(OptimizerOptions& options,
                                       std::vector<NamedTensor> parameters) {
  return std::make_unique<Adagrad>(options, std::move(parameters));
}

std::unique_ptr<Optimizer> MakeCustom(OptimizerOptions& options,
                                      std::vector<NamedTensor> parameters) {
  const double states = options.Number("states", 1);
  return std::make_unique<Custom>(options, std::move(parameters),
                                  static_cast<std::size_t>(std::clamp(states, 0.0, 64.0)));
}

}  // namespace memmodel::step
