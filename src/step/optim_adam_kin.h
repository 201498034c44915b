// What NAdam, RAdam and Adamax share: options, state and lines of their updates.
#ifndef MEMMODEL_SRC_STEP_OPTIM_ADAM_KIN_H_
#define MEMMODEL_SRC_STEP_OPTIM_ADAM_KIN_H_

#include <ATen/ATen.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/step/optimizer.h"

namespace memmodel::step {

class AdamKin : public Optimizer {
 public:
  AdamKin(OptimizerOptions& options, const OptimizerTraits& traits,
          std::vector<NamedTensor> parameters, std::vector<std::string> slots, bool can_decouple)
      : Optimizer(options, traits, std::move(parameters), std::move(slots)),
        beta1_(options.Entry("betas", 0, 0.9)),
        beta2_(options.Entry("betas", 1, 0.999)),
        eps_(options.Number("eps", 1e-8)),
        decoupled_(can_decouple && options.Flag("decoupled_weight_decay", false)) {}

 protected:
  enum Slot : std::size_t { kStep, kExpAvg, kExpAvgSq, kMuProduct };

  void Start(std::size_t k, const at::Tensor& param, const at::Tensor& /*grad*/) override {
    State(kStep, k) = NewStep(param);
    State(kExpAvg, k) = at::zeros_like(param);
    State(kExpAvgSq, k) = at::zeros_like(param);
  }

  template <typename Grads, typename Params>
  void DecayOrShrink(Grads& grads, Params& params) {
    if (!decoupled_ || weight_decay_ == 0) return Decay(grads, params);
    if constexpr (std::is_same_v<Grads, TensorList>) {
      at::_foreach_mul_(params, 1 - lr_ * weight_decay_);
    } else {
      params.mul_(1 - lr_ * weight_decay_);
    }
  }

  void Average(TensorList& exp_avg, TensorList& exp_avg_sq, const TensorList& grads) const {
    at::_foreach_lerp_(exp_avg, grads, 1 - beta1_);
    at::_foreach_mul_(exp_avg_sq, beta2_);
    at::_foreach_addcmul_(exp_avg_sq, grads, grads, 1 - beta2_);
  }
  void Average(std::size_t k, const at::Tensor& grad) {
    State(kExpAvg, k).lerp_(grad, 1 - beta1_);
    State(kExpAvgSq, k).mul_(beta2_).addcmul_(grad, grad, 1 - beta2_);
  }

  // 1 - beta ** step, for steps on the device.
  static at::Tensor Correction(double beta, const at::Tensor& step) {
    const at::Tensor power = at::pow(beta, step);
    return at::rsub(power, 1);
  }

  double beta1_;
  double beta2_;
  double eps_;
  bool decoupled_;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_OPTIM_ADAM_KIN_H_
