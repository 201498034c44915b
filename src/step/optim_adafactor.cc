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

constexpr OptimizerTraits kAdafactor = {
    .lr = 1e-2, .has_capturable = false, .foreach_by_default = false};
constexpr OptimizerTraits kMuon = {.lr = 1e-3,
                                   .weight_decay = 0.1,
                                   .has_maximize = false,
                                   .has_capturable = false,
                                   .foreach_by_default = false};

class Adafactor : public Optimizer {
 public:
  Adafactor(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kAdafactor, std::move(parameters),
                  {"step", "row_var", "col_var", "variance"}),
        beta2_decay_(options.Number("beta2_decay", -0.8)) {
    options.Number("d", 1);
  }

 private:
  enum Slot : std::size_t { kStep, kRow, kCol, kVariance };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& grad) override {
    State(kStep, k) = NewStep(param);
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

  void Foreach(const Active& active) override {
    TensorList updates, estimates, grads;
    for (const Active& group : Groups(active)) {
      // Matrices, then vectors; whichever comes first in the list goes first.
      const bool matrix_first = group.grads.front().dim() > 1;
      for (const bool matrices : {matrix_first, !matrix_first}) {
        const Active part = Part(group, matrices);
        if (!part.index.empty()) Foreach(part, matrices, grads, estimates, updates);
      }
    }
  }

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

  void SingleTensor(const Active& active) override {
    at::Tensor update, squared, estimate, col_mean, row_mean, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      Negate(grad, active.grads[i], /*one_statement=*/true);
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

  // The three lists are Python's variables: what one group leaves in them lives until
  // the next one assigns them.
  void Foreach(const Active& group, bool matrices, TensorList& grads, TensorList& estimates,
               TensorList& updates) {
    grads = group.grads;
    Negate(grads);
    TensorList steps = Gather(kStep, group.index);
    AdvanceSteps(steps);
    std::vector<at::Scalar> weights;
    for (const at::Tensor& step : steps) {
      weights.emplace_back(std::pow(step.item<double>(), beta2_decay_));
    }
    for (const at::Tensor& param : group.params) param.norm(2);
    if (weight_decay_ != 0) at::_foreach_mul_(group.params, 1 - lr_ * weight_decay_);
    const double eps = Eps(group.params.front());
    TensorList made;
    if (matrices) {
      TensorList rows = Gather(kRow, group.index);
      TensorList cols = Gather(kCol, group.index);
      Mean(rows, grads, -1, weights);
      Mean(cols, grads, -2, weights);
      for (std::size_t i = 0; i < rows.size(); ++i) made.push_back(at::matmul(rows[i], cols[i]));
      estimates = std::move(made);
      TensorList means;
      for (const at::Tensor& row : rows) means.push_back(row.mean({-2}, /*keepdim=*/true));
      at::_foreach_clamp_min_(means, eps);
      at::_foreach_div_(estimates, means);
    } else {
      TensorList variances = Gather(kVariance, group.index);
      {
        const TensorList squared = at::_foreach_mul(grads, grads);
        at::_foreach_lerp_(variances, squared, weights);
      }
      for (const at::Tensor& variance : variances) made.push_back(variance.clone());
      estimates = std::move(made);
    }
    at::_foreach_clamp_min_(estimates, eps * eps);
    at::_foreach_rsqrt_(estimates);
    at::_foreach_mul_(estimates, grads);
    updates = estimates;
    for (const at::Tensor& update : updates) update.norm(2);
    at::_foreach_mul_(updates, std::vector<at::Scalar>(updates.size(), -lr_));
    at::_foreach_add_(group.params, updates);
  }

  static void Mean(TensorList& variances, const TensorList& grads, std::int64_t dim,
                   const std::vector<at::Scalar>& weights) {
    TensorList means;
    std::vector<at::Scalar> sizes;
    for (const at::Tensor& grad : grads) {
      means.push_back(NormOver(grad, dim));
      sizes.emplace_back(grad.size(dim));
    }
    at::_foreach_mul_(means, means);
    at::_foreach_div_(means, sizes);
    at::_foreach_lerp_(variances, means, weights);
  }

  double beta2_decay_;
};

class Muon : public Optimizer {
 public:
  Muon(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kMuon, std::move(parameters), {"momentum_buffer"}),
        momentum_(options.Number("momentum", 0.95)),
        nesterov_(options.Flag("nesterov", true)),
        ns_steps_(static_cast<int>(std::clamp(options.Number("ns_steps", 5), 0.0, 99.0))) {
    options.Number("eps", 1e-7);
    for (const NamedTensor& parameter : this->parameters()) {
      TORCH_CHECK(parameter.tensor.dim() == 2, "Muon only supports 2D parameters; ", parameter.name,
                  " has the shape ", parameter.tensor.sizes());
    }
  }

 private:
  void Start(std::size_t k, const at::Tensor& /*param*/, const at::Tensor& grad) override {
    State(0, k) = at::zeros_like(grad);
  }

  void SingleTensor(const Active& active) override {
    at::Tensor update;
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

  void Foreach(const Active& /*active*/) override {
    TORCH_CHECK(false, "Foreach is not supported for Muon yet");
  }

  [[nodiscard]] at::Tensor Orthogonalize(const at::Tensor& grad) const {
    at::Tensor ortho = grad.to(at::kBFloat16);
    const bool tall = grad.size(0) > grad.size(1);
    if (tall) ortho = ortho.t();
    ortho.div_([&] {
      const at::Tensor norm = ortho.norm();
      return norm.clamp(1e-7);
    }());
    at::Tensor gram_update, gram;
    for (int i = 0; i < ns_steps_; ++i) {
      gram = at::matmul(ortho, ortho.t());
      gram_update = at::addmm(gram, gram, gram, -4.7750, 2.0315);
      ortho = at::addmm(ortho, gram_update, ortho, 3.4445);
    }
    return tall ? ortho.t() : ortho;
  }

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
