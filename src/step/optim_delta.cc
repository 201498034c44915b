// torch/optim/adadelta.py, asgd.py and rprop.py of PyTorch 2.11.
#include <ATen/ATen.h>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kAdadelta = {.lr = 1.0};
constexpr OptimizerTraits kAsgd = {.lr = 1e-2};
constexpr OptimizerTraits kRprop = {.lr = 1e-2, .has_weight_decay = false};

class Adadelta : public Optimizer {
 public:
  Adadelta(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kAdadelta, std::move(parameters), {"step", "square_avg", "acc_delta"}),
        rho_(options.Number("rho", 0.9)),
        eps_(options.Number("eps", 1e-6)) {}

 private:
  enum Slot : std::size_t { kStep, kSquareAvg, kAccDelta };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    State(kStep, k) = NewStep(param);
    State(kSquareAvg, k) = at::zeros_like(param);
    State(kAccDelta, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override {
    TensorList deltas, std, grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList square_avg = Gather(kSquareAvg, group.index);
      TensorList acc_delta = Gather(kAccDelta, group.index);
      AdvanceSteps(steps);
      Negate(grads);
      Decay(grads, group.params);
      at::_foreach_mul_(square_avg, rho_);
      at::_foreach_addcmul_(square_avg, grads, grads, 1 - rho_);
      std = at::_foreach_add(square_avg, eps_);
      at::_foreach_sqrt_(std);
      deltas = at::_foreach_add(acc_delta, eps_);
      at::_foreach_sqrt_(deltas);
      at::_foreach_div_(deltas, std);
      at::_foreach_mul_(deltas, grads);
      at::_foreach_mul_(acc_delta, rho_);
      at::_foreach_addcmul_(acc_delta, deltas, deltas, 1 - rho_);
      at::_foreach_add_(group.params, deltas, -lr_);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor delta, std, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      State(kStep, k).add_(1);
      Negate(grad, active.grads[i], /*one_statement=*/false);
      Decay(grad, param);
      State(kSquareAvg, k).mul_(rho_).addcmul_(grad, grad, 1 - rho_);
      std = State(kSquareAvg, k).add(eps_).sqrt_();
      delta = State(kAccDelta, k).add(eps_).sqrt_();
      delta.div_(std).mul_(grad);
      State(kAccDelta, k).mul_(rho_).addcmul_(delta, delta, 1 - rho_);
      param.add_(delta, -lr_);
    }
  }

  double rho_;
  double eps_;
};

// Its counters live on the device and are read back by Python unless it is capturable;
// only step sizes depend on them, until step t0 (a million) is reached.
class Asgd : public Optimizer {
 public:
  Asgd(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kAsgd, std::move(parameters), {"step", "eta", "mu", "ax"}),
        lambd_(options.Number("lambd", 1e-4)),
        alpha_(options.Number("alpha", 0.75)),
        t0_(options.Number("t0", 1e6)) {}

 private:
  enum Slot : std::size_t { kStep, kEta, kMu, kAx };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    const auto scalar = param.options().dtype(at::kFloat).requires_grad(false);
    State(kStep, k) = at::zeros({}, scalar);
    State(kEta, k) = [&] {
      const at::Tensor rate = at::scalar_tensor(lr_).to(scalar);
      return rate.clone();
    }();
    State(kMu, k) = at::ones({}, scalar);
    State(kAx, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override {
    TensorList new_etas, new_mus, intermediate, grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList etas = Gather(kEta, group.index);
      TensorList mus = Gather(kMu, group.index);
      TensorList axs = Gather(kAx, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      if (weight_decay_ != 0) {
        if (maximize_) {
          at::_foreach_add_(grads, group.params, weight_decay_);
          intermediate = grads;
        } else {
          intermediate = at::_foreach_add(grads, group.params, weight_decay_);
        }
        at::_foreach_add_(intermediate, group.params, lambd_);
      } else {
        intermediate = at::_foreach_add(grads, group.params, lambd_);
      }
      at::_foreach_addcmul_(group.params, intermediate, etas, -1);
      intermediate.clear();
      intermediate = at::_foreach_sub(group.params, axs);
      at::_foreach_addcmul_(axs, intermediate, mus);
      intermediate.clear();
      if (capturable_) {
        new_mus = at::_foreach_sub(steps, t0_);
        at::_foreach_maximum_(new_mus, 1.0);
        at::_foreach_reciprocal_(new_mus);
        at::_foreach_copy_(mus, new_mus);
        new_mus.clear();
        new_etas = at::_foreach_mul(steps, lambd_);
        at::_foreach_mul_(new_etas, lr_);
        at::_foreach_add_(new_etas, 1);
        at::_foreach_pow_(new_etas, alpha_);
        at::_foreach_reciprocal_(new_etas);
        at::_foreach_mul_(new_etas, lr_);
        at::_foreach_copy_(etas, new_etas);
        continue;
      }
      TensorList etas_now, mus_now;
      for (const at::Tensor& step : steps) etas_now.push_back(NewEta(step));
      new_etas = std::move(etas_now);
      for (const at::Tensor& step : steps) {
        mus_now.push_back(at::scalar_tensor(1.0F).to(step.device()));
      }
      new_mus = std::move(mus_now);
      at::_foreach_copy_(etas, new_etas);
      at::_foreach_copy_(mus, new_mus);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& step = State(kStep, k);
      at::Tensor& eta = State(kEta, k);
      at::Tensor& mu = State(kMu, k);
      Negate(grad, active.grads[i], /*one_statement=*/false);
      step.add_(1);
      Decay(grad, param);
      if (capturable_) {
        param.mul_([&] {
          const at::Tensor shrink = eta * lambd_;
          return at::rsub(shrink, 1);
        }());
        param.addcmul_(grad, eta, -1);
        State(kAx, k).add_(param.sub(State(kAx, k)).mul_(mu));
        eta.copy_(NewEta(step));
        mu.copy_([&] {
          at::Tensor value = step - t0_;
          value = at::maximum(value, at::ones_like(step));
          return Divide(1, value);
        }());
      } else {
        param.mul_(1 - lambd_ * lr_);
        param.add_(grad, -lr_);
        State(kAx, k).copy_(param);
        eta.copy_(at::scalar_tensor(lr_));
        mu.copy_(at::scalar_tensor(1.0));
      }
    }
  }

  // lr / ((1 + lambd * lr * step) ** alpha)
  [[nodiscard]] at::Tensor NewEta(const at::Tensor& step) const {
    at::Tensor value = step * (lambd_ * lr_);
    value = value + 1;
    value = at::pow(value, alpha_);
    return Divide(lr_, value);
  }

  double lambd_;
  double alpha_;
  double t0_;
};

class Rprop : public Optimizer {
 public:
  Rprop(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kRprop, std::move(parameters), {"step", "prev", "step_size"}),
        eta_minus_(options.Entry("etas", 0, 0.5)),
        eta_plus_(options.Entry("etas", 1, 1.2)),
        smallest_(options.Entry("step_sizes", 0, 1e-6)),
        largest_(options.Entry("step_sizes", 1, 50)) {}

 private:
  enum Slot : std::size_t { kStep, kPrev, kStepSize };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& grad) override {
    State(kStep, k) = NewStep(param);
    State(kPrev, k) = at::zeros_like(param);
    State(kStepSize, k) = at::full_like(grad, lr_);
  }

  // tensor[mask] = value, as a copy of where() if it is capturable.
  void Replace(at::Tensor& tensor, at::Tensor mask, double value) const {
    if (capturable_) {
      const at::Tensor chosen = at::where(mask, value, tensor);
      mask.reset();
      tensor.copy_(chosen);
    } else {
      tensor.index_put_({mask}, at::scalar_tensor(value));
    }
  }
  void ReplaceSigns(at::Tensor& sign) const {
    Replace(sign, sign.gt(0), eta_plus_);
    Replace(sign, sign.lt(0), eta_minus_);
    Replace(sign, sign.eq(0), 1);
  }

  void Foreach(const Active& active) override {
    TensorList grad_signs;
    at::Tensor sign;  // a loop's variable keeps its last value
    for (const Active& group : Groups(active)) {
      TensorList steps = Gather(kStep, group.index);
      TensorList prev = Gather(kPrev, group.index);
      TensorList step_sizes = Gather(kStepSize, group.index);
      AdvanceSteps(steps);
      TensorList signs = at::_foreach_mul(group.grads, prev);
      if (maximize_) at::_foreach_neg_(signs);
      at::_foreach_copy_(prev, group.grads);
      if (maximize_) at::_foreach_neg_(prev);
      at::_foreach_sign_(signs);
      for (at::Tensor& each : signs) {
        sign = each;
        ReplaceSigns(sign);
      }
      at::_foreach_mul_(step_sizes, signs);
      for (at::Tensor& size : step_sizes) size.clamp_(smallest_, largest_);
      for (std::size_t i = 0; i < prev.size(); ++i) {
        prev[i].copy_([&] {
          const at::Tensor mask = signs[i].eq(eta_minus_);
          return at::where(mask, 0, prev[i]);
        }());
      }
      signs.clear();
      TensorList new_signs;
      for (const at::Tensor& grad : prev) new_signs.push_back(grad.sign());
      grad_signs = std::move(new_signs);
      at::_foreach_addcmul_(group.params, grad_signs, step_sizes, -1);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor sign, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      Negate(grad, active.grads[i], /*one_statement=*/false);
      State(kStep, k).add_(1);
      sign = [&] {
        const at::Tensor product = grad.mul(State(kPrev, k));
        return product.sign();
      }();
      ReplaceSigns(sign);
      State(kStepSize, k).mul_(sign).clamp_(smallest_, largest_);
      grad = grad.clone();
      Replace(grad, sign.eq(eta_minus_), 0);
      param.addcmul_(grad.sign(), State(kStepSize, k), -1);
      State(kPrev, k).copy_(grad);
    }
  }

  double eta_minus_;
  double eta_plus_;
  double smallest_;
  double largest_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdadelta(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Adadelta>(options, std::move(p));
}
std::unique_ptr<Optimizer> MakeAsgd(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Asgd>(options, std::move(p));
}
std::unique_ptr<Optimizer> MakeRprop(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Rprop>(options, std::move(p));
}

}  // namespace memmodel::step
