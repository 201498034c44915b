// torch/optim/radam.py of PyTorch 2.11.
#include <ATen/ATen.h>

#include <cmath>

#include "src/step/optim_adam_kin.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kRAdam = {.lr = 1e-3};

class RAdam : public AdamKin {
 public:
  RAdam(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : AdamKin(options, kRAdam, std::move(parameters), {"step", "exp_avg", "exp_avg_sq"},
                /*can_decouple=*/true) {}

 private:
  void Foreach(const Active& active) override {
    TensorList buffer, unrectified, correction2, correction1;
    for (const Active& group : Groups(active)) {
      TensorList grads = group.grads;
      TensorList steps = Gather(kStep, group.index);
      TensorList exp_avg = Gather(kExpAvg, group.index);
      TensorList exp_avg_sq = Gather(kExpAvgSq, group.index);
      AdvanceSteps(steps);
      Negate(grads);
      TensorList rho;
      if (capturable_) {
        correction1 = at::_foreach_pow(beta2_, steps);
        at::_foreach_neg_(correction1);
        at::_foreach_add_(correction1, 1);
        correction2 = at::_foreach_pow(beta2_, steps);
        at::_foreach_mul_(correction2, steps);
        at::_foreach_mul_(correction2, 2);
        at::_foreach_div_(correction2, correction1);
        at::_foreach_neg_(correction2);
        at::_foreach_add_(correction2, Infinity());
        rho = correction2;
      }
      DecayOrShrink(grads, group.params);
      Average(exp_avg, exp_avg_sq, grads);
      grads.clear();
      std::vector<at::Scalar> rectified_sizes, unrectified_sizes;
      if (capturable_) {
        TensorList rect = Rectifications(rho);
        rho.clear();
        TensorList sizes;
        for (const at::Tensor& r : rect) {
          const at::Tensor positive = r.gt(0);
          sizes.push_back(at::where(positive, 0.0, 1.0));
        }
        unrectified = std::move(sizes);
        at::_foreach_mul_(unrectified, lr_);
        correction1 = at::_foreach_pow(beta1_, steps);
        at::_foreach_neg_(correction1);
        at::_foreach_add_(correction1, 1);
        at::_foreach_div_(unrectified, correction1);
        at::_foreach_neg_(unrectified);
        correction2 = at::_foreach_pow(beta2_, steps);
        at::_foreach_neg_(correction2);
        at::_foreach_add_(correction2, 1);
        at::_foreach_sqrt_(correction2);
        at::_foreach_mul_(correction2, lr_);
        at::_foreach_mul_(correction2, rect);
        rect.clear();
        at::_foreach_neg_(correction2);
        at::_foreach_div_(correction2, correction1);
        correction1.clear();
      } else {
        for (const at::Tensor& step : steps) {
          const double t = step.item<double>();
          const double rect = Rectification(t);
          const double correction = 1 - std::pow(beta1_, t);
          unrectified_sizes.emplace_back(rect > 0 ? 0.0 : -lr_ / correction);
          rectified_sizes.emplace_back(-std::sqrt(1 - std::pow(beta2_, t)) * lr_ * rect /
                                       correction);
        }
      }
      buffer = at::_foreach_sqrt(exp_avg_sq);
      at::_foreach_add_(buffer, eps_);
      capturable_ ? at::_foreach_div_(buffer, correction2)
                  : at::_foreach_div_(buffer, rectified_sizes);
      at::_foreach_reciprocal_(buffer);
      capturable_ ? at::_foreach_add_(buffer, unrectified)
                  : at::_foreach_add_(buffer, unrectified_sizes);
      at::_foreach_addcmul_(group.params, exp_avg, buffer);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor rho, correction2, update, corrected, correction1, grad;
    for (std::size_t i = 0; i < active.index.size(); ++i) {
      const std::size_t k = active.index[i];
      at::Tensor param = active.params[i];
      at::Tensor& step = State(kStep, k);
      Negate(grad, active.grads[i], /*one_statement=*/true);
      step.add_(1);
      DecayOrShrink(grad, param);
      Average(k, grad);
      // sqrt(1 - beta2 ** t) / (sqrt(exp_avg_sq) + eps)
      const auto adaptive = [&](auto&& divide) {
        const at::Tensor root = State(kExpAvgSq, k).sqrt().add_(eps_);
        return divide(root);
      };
      if (!capturable_) {
        const double t = step.item<double>();
        const double rect = Rectification(t);
        corrected = State(kExpAvg, k) / (1 - std::pow(beta1_, t));
        at::Tensor change = corrected * lr_;
        if (rect > 0) {
          change = change * adaptive([&](const at::Tensor& root) {
                     return Divide(std::sqrt(1 - std::pow(beta2_, t)), root);
                   });
          change = change * rect;
        }
        param.add_(change, -1.0);
        continue;
      }
      correction1 = Correction(beta1_, step);
      correction2 = Correction(beta2_, step);
      corrected = State(kExpAvg, k) / correction1;
      rho = [&] {
        at::Tensor value = step * 2;
        value = value * at::pow(beta2_, step);
        value = value / correction2;
        return at::rsub(value, Infinity());
      }();
      update = [&] {
        at::Tensor rect;
        const at::Tensor above = rho.gt(5.0);
        rect = rho - 4;
        rect = rect * (rho - 2);
        rect = rect * Infinity();
        rect = rect / (rho * ((Infinity() - 4) * (Infinity() - 2)));
        rect = rect.pow(0.5);
        rect = rect * adaptive([&](const at::Tensor& root) {
                 const at::Tensor numerator = correction2.pow(0.5);
                 return numerator / root;
               });
        return at::where(above, rect, 1.0);
      }();
      at::Tensor change = corrected * lr_;
      change = change * update;
      param.add_(change, -1.0);
    }
  }

  [[nodiscard]] double Infinity() const { return 2 / (1 - beta2_) - 1; }

  [[nodiscard]] double Rectification(double t) const {
    const double inf = Infinity();
    const double power = std::pow(beta2_, t);
    const double rho = inf - 2 * t * power / (1 - power);
    return rho > 5 ? std::sqrt((rho - 4) * (rho - 2) * inf / ((inf - 4) * (inf - 2) * rho)) : 0;
  }

  [[nodiscard]] TensorList Rectifications(const TensorList& rho) const {
    TensorList numerator = at::_foreach_sub(rho, 4);
    {
      const TensorList two_less = at::_foreach_sub(rho, 2);
      at::_foreach_mul_(numerator, two_less);
    }
    at::_foreach_mul_(numerator, Infinity());
    {
      const TensorList denominator = at::_foreach_mul(rho, (Infinity() - 4) * (Infinity() - 2));
      at::_foreach_div_(numerator, denominator);
    }
    at::_foreach_sqrt_(numerator);
    TensorList rect;
    for (std::size_t i = 0; i < rho.size(); ++i) {
      const at::Tensor above = rho[i].gt(5.0);
      rect.push_back(at::where(above, numerator[i], 0.0));
    }
    return rect;
  }
};

}  // namespace

std::unique_ptr<Optimizer> MakeRAdam(OptimizerOptions& options, std::vector<NamedTensor> p) {
  return std::make_unique<RAdam>(options, std::move(p));
}

}  // namespace memmodel::step
