// torch/optim/sgd.py of PyTorch 2.11.
#include <ATen/ATen.h>

#include <algorithm>

#include "src/step/optimizer.h"

namespace memmodel::step {
namespace {

constexpr OptimizerTraits kTraits = {.has_capturable = false, .has_fused = true};

class Sgd : public Optimizer {
 public:
  Sgd(OptimizerOptions& options, std::vector<NamedTensor> parameters)
      : Optimizer(options, kTraits, std::move(parameters), {"momentum_buffer"}),
        momentum_(options.Number("momentum", 0)),
        dampening_(options.Number("dampening", 0)),
        nesterov_(options.Flag("nesterov", false)) {}

 private:
  static constexpr std::size_t kMomentum = 0;

  // Made from the first gradients, in the update itself.
  void Start(std::size_t, const at::Tensor&, const at::Tensor&) override {}

  void Foreach(const Active& active) override {
    TensorList buffers;
    TensorList grads;
    for (const Active& group : Groups(active)) {
      grads = group.grads;
      Negate(grads);
      Decay(grads, group.params);
      if (momentum_ != 0) {
        buffers = Gather(kMomentum, group.index);
        const bool all = std::all_of(buffers.begin(), buffers.end(),
                                     [](const at::Tensor& t) { return t.defined(); });
        if (all) {
          at::_foreach_mul_(buffers, momentum_);
          at::_foreach_add_(buffers, grads, 1 - dampening_);
        } else {
          for (std::size_t i = 0; i < buffers.size(); ++i) {
            if (buffers[i].defined()) {
              buffers[i].mul_(momentum_).add_(grads[i], 1 - dampening_);
            } else {
              buffers[i] = State(kMomentum, group.index[i]) = grads[i].detach().clone();
            }
          }
        }
        if (nesterov_) {
          at::_foreach_add_(grads, buffers, momentum_);
        } else {
          grads = buffers;
        }
      }
      at::_foreach_add_(group.params, grads, -lr_);
    }
  }

  void SingleTensor(const Active& active) override {
    at::Tensor grad;
    for (std::size_t i = 0; i < active.params.size(); ++i) {
      at::Tensor param = active.params[i];
      Negate(grad, active.grads[i], /*one_statement=*/true);
      Decay(grad, param);
      if (momentum_ != 0) {
        at::Tensor& buffer = State(kMomentum, active.index[i]);
        if (buffer.defined()) {
          buffer.mul_(momentum_).add_(grad, 1 - dampening_);
        } else {
          buffer = grad.detach().clone();
        }
        grad = nesterov_ ? grad.add(buffer, momentum_) : buffer;
      }
      param.add_(grad, -lr_);
    }
  }

  void Fused(const Active& active) override {
    bool first = momentum_ != 0;
    for (const std::size_t i : active.index) first = first && !State(kMomentum, i).defined();
    if (first) {
      for (std::size_t i = 0; i < active.index.size(); ++i) {
        State(kMomentum, active.index[i]) = at::empty_like(active.grads[i]);
      }
    }
    for (const Active& group : Groups(active)) {
      const TensorList buffers = momentum_ == 0 ? TensorList() : Gather(kMomentum, group.index);
      at::_fused_sgd_(group.params, group.grads, buffers, weight_decay_, momentum_, lr_, dampening_,
                      nesterov_, maximize_, first, grad_scale(), found_inf());
    }
  }

  double momentum_;
  double dampening_;
  bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(OptimizerOptions& options, std::vector<NamedTensor> parameters) {
  return std::make_unique<Sgd>(options, std::move(parameters));
}

}  // namespace memmodel::step
