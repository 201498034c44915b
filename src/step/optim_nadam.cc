// torch/optim/nadam.py of PyTorch 2.11.
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optim_adam_kin.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kNAdam = {.lr = 2e-3};

class NAdam : public AdamKin {
 public:
  NAdam(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, kNAdam, std::move(parameters),
                {"step", "exp_avg", "exp_avg_sq", "mu_product"}, /*can_decouple=*/true),
        momentum_decay_(options.Number("momentum_decay", 4e-3)) {}

 private:
  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    State(kStep, k) = NewStep(param);
    State(kMuProduct, k) = at::ones({}, State(kStep, k).options());
    State(kExpAvg, k) = at::zeros_like(param);
    State(kExpAvgSq, k) = at::zeros_like(param);
  }

  void Foreach(const Active& active) override {
    TensorList numerator, mu_nexts, mus, roots, grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList exp_avg = Gather(kExpAvg, group.index);
      TensorList exp_avg_sq = Gather(kExpAvgSq, group.index);
      TensorList products = Gather(kMuProduct, group.index);
      Negate(grads);
      AdvanceSteps(steps);
      DecayOrShrink(grads, group.params);
      Average(exp_avg, exp_avg_sq, grads);
      roots = at::_foreach_sqrt(exp_avg_sq);
      if (capturable_) {
        TensorList exponent = at::_foreach_mul(steps, momentum_decay_);
        mus = Mus(exponent);
        at::_foreach_add_(exponent, momentum_decay_);
        mu_nexts = Mus(exponent);
        exponent.clear();
        TensorList correction = at::_foreach_pow(beta2_, steps);
        at::_foreach_sub_(correction, 1.0);
        at::_foreach_neg_(correction);
        at::_foreach_sqrt_(correction);
        at::_foreach_mul_(products, mus);
        at::_foreach_div_(roots, correction);
        at::_foreach_add_(roots, eps_);
        correction.clear();
        at::_foreach_sub_(mus, 1.0);
        at::_foreach_mul_(mus, lr_);
        TensorList denominator = at::_foreach_sub(products, 1.0);
        at::_foreach_neg_(denominator);
        at::_foreach_div_(mus, denominator);
        denominator.clear();
        denominator = at::_foreach_mul(products, mu_nexts);
        at::_foreach_mul_(mu_nexts, lr_);
        at::_foreach_sub_(denominator, 1.0);
        at::_foreach_div_(mu_nexts, denominator);
        denominator.clear();
        numerator = at::_foreach_mul(mus, grads);
        at::_foreach_addcmul_(numerator, mu_nexts, exp_avg);
        at::_foreach_addcdiv_(group.params, numerator, roots);
        continue;
      }
      std::vector<at::Scalar> correction, grad_sizes, average_sizes;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const double t = steps[i].item<double>();
        const auto [grad, average] = Sizes(products[i], t);
        correction.emplace_back(std::sqrt(1 - std::pow(beta2_, t)));
        grad_sizes.emplace_back(grad);
        average_sizes.emplace_back(average);
      }
      at::_foreach_div_(roots, correction);
      at::_foreach_add_(roots, eps_);
      at::_foreach_addcdiv_(group.params, grads, roots, grad_sizes);
      at::_foreach_addcdiv_(group.params, exp_avg, roots, average_sizes);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor mu_product_next, denominator, mu_next, mu, correction, exp_avg, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& step = State(kStep, k);
      at::Tensor& product = State(kMuProduct, k);
      Negate(grad, active.grads[i], /*one_statement=*/true);
      exp_avg = State(kExpAvg, k);
      step.add_(1);
      if (!capturable_) {
        DecayOrShrink(grad, param);
        const double t = step.item<double>();
        const auto [grad_size, average_size] = Sizes(product, t);
        Average(k, grad);
        denominator = [&] {
          const at::Tensor quotient = State(kExpAvgSq, k).div(1 - std::pow(beta2_, t));
          return quotient.sqrt();
        }();
        denominator.add_(eps_);
        param.addcdiv_(grad, denominator, grad_size);
        param.addcdiv_(exp_avg, denominator, average_size);
        continue;
      }
      correction = Correction(beta2_, step);
      DecayOrShrink(grad, param);
      mu = Mu([&] { return step * momentum_decay_; }());
      mu_next = Mu([&] {
        const at::Tensor next = step + 1;
        return next * momentum_decay_;
      }());
      product.mul_(mu);
      Average(k, grad);
      denominator = [&] {
        const at::Tensor quotient = State(kExpAvgSq, k).div(correction);
        return quotient.sqrt();
      }();
      denominator = denominator.add(eps_);
      mu_product_next = product * mu_next;
      // grad * (-lr * (1.0 - mu) / (1.0 - mu_product)), and the same for exp_avg.
      const auto scaled = [this](const at::Tensor& tensor, at::Tensor size, const at::Tensor& of) {
        size = size * -lr_;
        {
          const at::Tensor rest = at::rsub(of, 1.0);
          size = size / rest;
        }
        const at::Tensor product = tensor * size;
        size.reset();
        return product;
      };
      grad = scaled(grad, at::rsub(mu, 1.0), product);
      exp_avg = scaled(exp_avg, mu_next, mu_product_next);
      param.addcdiv_(grad, denominator);
      param.addcdiv_(exp_avg, denominator);
    }
  }

  // beta1 * (1 - 0.5 * 0.96 ** exponent)
  [[nodiscard]] TensorList Mus(const TensorList& exponent) const {
    TensorList mus = at::_foreach_pow(0.96, exponent);
    at::_foreach_mul_(mus, -0.5);
    at::_foreach_add_(mus, 1.0);
    at::_foreach_mul_(mus, beta1_);
    return mus;
  }
  [[nodiscard]] at::Tensor Mu(at::Tensor value) const {
    value = at::pow(0.96, value);
    value = value * 0.5;
    value = at::rsub(value, 1.0);
    const at::Tensor mu = value * beta1_;
    value.reset();
    return mu;
  }

  // The step sizes of gradient and average; `product` is a scalar on the CPU.
  [[nodiscard]] std::pair<double, double> Sizes(at::Tensor& product, double t) const {
    const double mu = beta1_ * (1 - 0.5 * std::pow(0.96, t * momentum_decay_));
    const double next = beta1_ * (1 - 0.5 * std::pow(0.96, (t + 1) * momentum_decay_));
    product.mul_(mu);
    const double value = product.item<double>();
    return {-lr_ * (1 - mu) / (1 - value), -lr_ * next / (1 - value * next)};
  }

  double momentum_decay_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeNAdam(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<NAdam>(options, std::move(p));
}

}  // namespace memmodel::step
