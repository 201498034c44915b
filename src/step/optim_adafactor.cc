// torch/optim/_adafactor.py and _muon.py of PyTorch 2.11. Both default to one tensor
// after another.
//
// Adafactor reads norms back from the device; only step sizes depend on them, so 1
// stands in for each.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

class Adafactor : public Optimizer {
 public:
  Adafactor(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(std::move(parameters), {"step", "row_var", "col_var", "variance"}),
        lr_(options.Number("lr", 1e-2)),
        beta2_decay_(options.Number("beta2_decay", -0.8)),
        weight_decay_(options.Number("weight_decay", 0)),
        maximize_(options.Flag("maximize", false)),
        implementation_(options.ReadImplementation(/*has_fused=*/false,
                                                   /*foreach_by_default=*/false)) {
    options.Number("d", 1);
  }

 protected:
  void Update(const Active& active) override {
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      if (State(kStep, k).defined()) continue;
      const at::Tensor& grad = active.grads[i];
      State(kStep, k) = NewStep(active.params[i], /*on_device=*/false);
      if (grad.dim() > 1) {
        std::vector<std::int64_t> shape = grad.sizes().vec();
        shape[shape.size() - 1] = 1;
        State(kRow, k) = grad.new_zeros(shape);
        shape = grad.sizes().vec();
        shape[shape.size() - 2] = 1;
        State(kCol, k) = grad.new_zeros(shape);
      } else {
        State(kVariance, k) = at::zeros_like(grad);
      }
    }
    if (implementation_ == Implementation::kForeach) {
      for (const Active& group : Groups(active)) {
        // Matrices, then vectors; whichever comes first in the list goes first.
        const bool matrix_first = group.grads.front().dim() > 1;
        Foreach(Part(group, matrix_first), matrix_first);
        Foreach(Part(group, !matrix_first), !matrix_first);
      }
      estimates_.clear();
    } else {
      SingleTensor(active);
    }
  }

 private:
  enum Slot : std::size_t { kStep, kRow, kCol, kVariance };

  static Active Part(const Active& group, bool matrices) {
    Active part;
    for (std::size_t i = 0; i < group.index.size(); ++i) {
      if ((group.grads[i].dim() > 1) != matrices) continue;
      part.index.push_back(group.index[i]);
      part.params.push_back(group.params[i]);
      part.grads.push_back(group.grads[i]);
    }
    return part;
  }

  static double Eps(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat ? std::numeric_limits<float>::epsilon() : 1e-3;
  }

  // (g * g).mean(dim), by a norm.
  static at::Tensor NormOver(const at::Tensor& grad, std::int64_t dim) {
    return at::norm(grad, 2, {dim}, /*keepdim=*/true);
  }

  void SingleTensor(const Active& active) {
    at::Tensor grad, row_mean, col_mean, estimate, squared, update;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      grad = maximize_ ? -active.grads[i] : active.grads[i];
      State(kStep, k).add_(1);
      const double weight = std::pow(State(kStep, k).item<double>(), beta2_decay_);
      param.norm(2);
      if (weight_decay_ != 0) param.mul_(1 - lr_ * weight_decay_);
      if (grad.dim() > 1) {
        row_mean = NormOver(grad, -1).square_().div_(grad.size(-1));
        State(kRow, k).lerp_(row_mean, weight);
        col_mean = NormOver(grad, -2).square_().div_(grad.size(-2));
        State(kCol, k).lerp_(col_mean, weight);
        estimate = at::matmul(State(kRow, k), State(kCol, k));
        estimate.div_(State(kRow, k).mean({-2}, /*keepdim=*/true).clamp_(Eps(param)));
      } else {
        squared = grad * grad;
        State(kVariance, k).lerp_(squared, weight);
        estimate = State(kVariance, k).clone();
      }
      update = estimate.clamp_(Eps(param) * Eps(param)).rsqrt_();
      update.mul_(grad);
      update.norm(2);
      param.add_(update, -lr_);
    }
  }

  void Foreach(const Active& group, bool matrices) {
    if (group.index.empty()) return;
    grads_ = maximize_ ? TensorList(at::_foreach_neg(group.grads)) : group.grads;
    TensorList steps = Gather(kStep, group.index);
    AdvanceSteps(steps);
    std::vector<at::Scalar> weights;
    for (const at::Tensor& step : steps) {
      weights.emplace_back(std::pow(step.item<double>(), beta2_decay_));
    }
    for (const at::Tensor& param : group.params) param.norm(2);
    if (weight_decay_ != 0) at::_foreach_mul_(group.params, 1 - lr_ * weight_decay_);
    const double eps = Eps(group.params.front());
    if (matrices) {
      TensorList rows = Gather(kRow, group.index);
      TensorList cols = Gather(kCol, group.index);
      Mean(rows, -1, weights);
      Mean(cols, -2, weights);
      TensorList estimates;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        estimates.push_back(at::matmul(rows[i], cols[i]));
      }
      estimates_ = std::move(estimates);
      TensorList means;
      for (const at::Tensor& row : rows) means.push_back(row.mean({-2}, /*keepdim=*/true));
      at::_foreach_clamp_min_(means, eps);
      at::_foreach_div_(estimates_, means);
    } else {
      TensorList variances = Gather(kVariance, group.index);
      {
        const TensorList squared = at::_foreach_mul(grads_, grads_);
        at::_foreach_lerp_(variances, squared, weights);
      }
      TensorList estimates;
      for (const at::Tensor& variance : variances) estimates.push_back(variance.clone());
      estimates_ = std::move(estimates);
    }
    at::_foreach_clamp_min_(estimates_, eps * eps);
    at::_foreach_rsqrt_(estimates_);
    at::_foreach_mul_(estimates_, grads_);
    for (const at::Tensor& update : estimates_) update.norm(2);
    at::_foreach_mul_(estimates_, std::vector<at::Scalar>(estimates_.size(), -lr_));
    at::_foreach_add_(group.params, estimates_);
  }

  void Mean(TensorList& variances, std::int64_t dim, const std::vector<at::Scalar>& weights) {
    TensorList means;
    std::vector<at::Scalar> sizes;
    for (const at::Tensor& grad : grads_) {
      means.push_back(NormOver(grad, dim));
      sizes.emplace_back(grad.size(dim));
    }
    at::_foreach_mul_(means, means);
    at::_foreach_div_(means, sizes);
    at::_foreach_lerp_(variances, means, weights);
  }

  double lr_;
  double beta2_decay_;
  double weight_decay_;
  bool maximize_;
  Implementation implementation_;
  TensorList grads_;
  TensorList estimates_;
};

class Muon : public Optimizer {
 public:
  Muon(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(std::move(parameters), {"momentum_buffer"}),
        lr_(options.Number("lr", 1e-3)),
        weight_decay_(options.Number("weight_decay", 0.1)),
        momentum_(options.Number("momentum", 0.95)),
        nesterov_(options.Flag("nesterov", true)),
        ns_steps_(static_cast<int>(std::clamp(options.Number("ns_steps", 5), 0.0, 99.0))) {
    for (const NamedTensor& parameter : this->parameters()) {
      TORCH_CHECK(parameter.tensor.dim() == 2, "Muon only supports 2D parameters; ", parameter.name,
                  " has the shape ", parameter.tensor.sizes());
    }
  }

 protected:
  void Update(const Active& active) override {
    at::Tensor update;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      at::Tensor& buffer = State(0, active.index[i]);
      if (!buffer.defined()) buffer = at::zeros_like(active.grads[i]);
    }
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      at::Tensor param = active.params[i];
      at::Tensor& buffer = State(0, active.index[i]);
      buffer.lerp_(active.grads[i], 1 - momentum_);
      update = nesterov_ ? active.grads[i].lerp(buffer, momentum_) : buffer;
      update = Orthogonalize(update);
      param.mul_(1 - lr_ * weight_decay_);
      param.add_(update, -lr_);
    }
  }

 private:
  [[nodiscard]] at::Tensor Orthogonalize(const at::Tensor& grad) const {
    at::Tensor ortho = grad.to(at::kBFloat16);
    const bool tall = grad.size(0) > grad.size(1);
    if (tall) ortho = ortho.t();
    ortho.div_(ortho.norm().clamp(1e-7));
    at::Tensor gram, gram_update;
    for (int i = 0; i < ns_steps_; ++i) {
      gram = at::matmul(ortho, ortho.t());
      gram_update = at::addmm(gram, gram, gram, -4.7750, 2.0315);
      ortho = at::addmm(ortho, gram_update, ortho, 3.4445);
    }
    return tall ? ortho.t() : ortho;
  }

  double lr_;
  double weight_decay_;
  double momentum_;
  bool nesterov_;
  int ns_steps_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdafactor(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Adafactor>(options, std::move(p));
}
std::unique_ptr<Optimizer> MakeMuon(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<Muon>(options, std::move(p));
}

}  // namespace memmodel::step
