// torch/optim/adadelta.py, asgd.py and rprop.py of PyTorch 2.11. ASGD and Rprop
// without capturable=True.
#include <ATen/ATen.h>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

class Adadelta : public Optimizer {
 public:
  Adadelta(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(std::move(parameters), {"step", "square_avg", "acc_delta"}),
        lr_(options.Number("lr", 1.0)),
        rho_(options.Number("rho", 0.9)),
        eps_(options.Number("eps", 1e-6)),
        weight_decay_(options.Number("weight_decay", 0)),
        maximize_(options.Flag("maximize", false)),
        capturable_(options.Flag("capturable", false)),
        implementation_(options.ReadImplementation(/*has_fused=*/false)) {}

 protected:
  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      State(kStep, k) = NewStep(active.params[i], capturable_);
      State(kSquareAvg, k) = at::zeros_like(active.params[i]);
      State(kAccDelta, k) = at::zeros_like(active.params[i]);
    }
    if (implementation_ == Implementation::kForeach) {
      Foreach(active);
    } else {
      SingleTensor(active);
    }
  }

 private:
  enum Slot : std::size_t { kStep, kSquareAvg, kAccDelta };

  void Foreach(const Active& active) {
    TensorList grads, std, deltas;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList square_avg = Gather(kSquareAvg, group.index);
      TensorList acc_delta = Gather(kAccDelta, group.index);
      AdvanceSteps(steps);
      if (maximize_) grads = at::_foreach_neg(grads);
      if (weight_decay_ != 0) {
        if (maximize_) {
          at::_foreach_add_(grads, group.params, weight_decay_);
        } else {
          grads = at::_foreach_add(grads, group.params, weight_decay_);
        }
      }
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

  void SingleTensor(const Active& active) {
    at::Tensor grad, std, delta;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      State(kStep, k).add_(1);
      grad = maximize_ ? -active.grads[i] : active.grads[i];
      if (weight_decay_ != 0) grad = grad.add(param, weight_decay_);
      State(kSquareAvg, k).mul_(rho_).addcmul_(grad, grad, 1 - rho_);
      std = State(kSquareAvg, k).add(eps_).sqrt_();
      delta = State(kAccDelta, k).add(eps_).sqrt_();
      delta.div_(std).mul_(grad);
      State(kAccDelta, k).mul_(rho_).addcmul_(delta, delta, 1 - rho_);
      param.add_(delta, -lr_);
    }
  }

  double lr_;
  double rho_;
  double eps_;
  double weight_decay_;
  bool maximize_;
  bool capturable_;
  Implementation implementation_;
};

// Its counters live on the device and are read back by Python; only step sizes
// depend on them, until step t0 (a million) is reached.
class Asgd : public Optimizer {
 public:
  Asgd(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(std::move(parameters), {"step", "eta", "mu", "ax"}),
        lr_(options.Number("lr", 1e-2)),
        lambd_(options.Number("lambd", 1e-4)),
        alpha_(options.Number("alpha", 0.75)),
        weight_decay_(options.Number("weight_decay", 0)),
        maximize_(options.Flag("maximize", false)),
        implementation_(options.ReadImplementation(/*has_fused=*/false)) {
    options.Number("t0", 1e6);
  }

 protected:
  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      const auto scalar = active.params[i].options().dtype(at::kFloat).requires_grad(false);
      State(kStep, k) = at::zeros({}, scalar);
      State(kEta, k) = at::scalar_tensor(lr_).to(scalar).clone();
      State(kMu, k) = at::ones({}, scalar);
      State(kAx, k) = at::zeros_like(active.params[i]);
    }
    if (implementation_ == Implementation::kForeach) {
      Foreach(active);
    } else {
      SingleTensor(active);
    }
  }

 private:
  enum Slot : std::size_t { kStep, kEta, kMu, kAx };

  void Foreach(const Active& active) {
    TensorList grads, new_etas, new_mus;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList etas = Gather(kEta, group.index);
      TensorList mus = Gather(kMu, group.index);
      TensorList axs = Gather(kAx, group.index);
      if (maximize_) grads = at::_foreach_neg(grads);
      AdvanceSteps(steps);
      TensorList intermediate;
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
      TensorList etas_now, mus_now;
      for (const at::Tensor& step : steps) {
        etas_now.push_back(at::pow(step * (lambd_ * lr_) + 1, alpha_).reciprocal() * lr_);
      }
      new_etas = std::move(etas_now);
      for (const at::Tensor& step : steps) {
        mus_now.push_back(at::scalar_tensor(1.0F).to(step.device()));
      }
      new_mus = std::move(mus_now);
      at::_foreach_copy_(etas, new_etas);
      at::_foreach_copy_(mus, new_mus);
    }
  }

  void SingleTensor(const Active& active) {
    at::Tensor grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      grad = maximize_ ? -active.grads[i] : active.grads[i];
      State(kStep, k).add_(1);
      if (weight_decay_ != 0) grad = grad.add(param, weight_decay_);
      param.mul_(1 - lambd_ * lr_);
      param.add_(grad, -lr_);
      State(kAx, k).copy_(param);
      State(kEta, k).copy_(at::scalar_tensor(lr_));
      State(kMu, k).copy_(at::scalar_tensor(1.0));
    }
  }

  double lr_;
  double lambd_;
  double alpha_;
  double weight_decay_;
  bool maximize_;
  Implementation implementation_;
};

class Rprop : public Optimizer {
 public:
  Rprop(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(std::move(parameters), {"step", "prev", "step_size"}),
        lr_(options.Number("lr", 1e-2)),
        eta_minus_(options.Entry("etas", 0, 0.5)),
        eta_plus_(options.Entry("etas", 1, 1.2)),
        smallest_(options.Entry("step_sizes", 0, 1e-6)),
        largest_(options.Entry("step_sizes", 1, 50)),
        maximize_(options.Flag("maximize", false)),
        implementation_(options.ReadImplementation(/*has_fused=*/false)) {}

 protected:
  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      State(kStep, k) = NewStep(active.params[i], /*on_device=*/false);
      State(kPrev, k) = at::zeros_like(active.params[i]);
      State(kStepSize, k) = at::full_like(active.grads[i], lr_);
    }
    if (implementation_ == Implementation::kForeach) {
      Foreach(active);
    } else {
      SingleTensor(active);
    }
  }

 private:
  enum Slot : std::size_t { kStep, kPrev, kStepSize };

  // sign[mask] = value for the three cases.
  void Replace(at::Tensor& sign) const {
    sign.index_put_({sign.gt(0)}, at::scalar_tensor(eta_plus_));
    sign.index_put_({sign.lt(0)}, at::scalar_tensor(eta_minus_));
    sign.index_put_({sign.eq(0)}, at::scalar_tensor(1.0));
  }

  void Foreach(const Active& active) {
    TensorList grad_signs;
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
      for (at::Tensor& sign : signs) Replace(sign);
      at::_foreach_mul_(step_sizes, signs);
      for (at::Tensor& size : step_sizes) size.clamp_(smallest_, largest_);
      for (std::size_t i = 0; i < prev.size(); ++i) {
        prev[i].copy_(at::where(signs[i].eq(eta_minus_), 0, prev[i]));
      }
      signs.clear();
      TensorList new_signs;
      for (const at::Tensor& grad : prev) new_signs.push_back(grad.sign());
      grad_signs = std::move(new_signs);
      at::_foreach_addcmul_(group.params, grad_signs, step_sizes, -1);
    }
  }

  void SingleTensor(const Active& active) {
    at::Tensor grad, sign;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      grad = maximize_ ? -active.grads[i] : active.grads[i];
      State(kStep, k).add_(1);
      sign = grad.mul(State(kPrev, k)).sign();
      Replace(sign);
      State(kStepSize, k).mul_(sign).clamp_(smallest_, largest_);
      grad = grad.clone();
      grad.index_put_({sign.eq(eta_minus_)}, at::scalar_tensor(0.0));
      param.addcmul_(grad.sign(), State(kStepSize, k), -1);
      State(kPrev, k).copy_(grad);
    }
  }

  double lr_;
  double eta_minus_;
  double eta_plus_;
  double smallest_;
  double largest_;
  bool maximize_;
  Implementation implementation_;
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
