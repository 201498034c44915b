// torch.amp.GradScaler: the same device tensors with the same lifetimes.
#ifndef MEMMODEL_SRC_STEP_GRAD_SCALER_H_
#define MEMMODEL_SRC_STEP_GRAD_SCALER_H_

#include <ATen/core/Tensor.h>

#include "src/step/optimizer.h"

namespace memmodel::step {

// Mirrors torch/amp/grad_scaler.py of PyTorch 2.11. The one value that Python reads
// back (found_inf, to skip a step) is taken to be 0: no step is skipped.
class GradScaler {
 public:
  at::Tensor Scale(const at::Tensor& loss);
  void Unscale(Optimizer& optimizer);  // for clipping before Step
  void Step(Optimizer& optimizer);
  void Update();

 private:
  at::Tensor CheckAndUnscale(Optimizer& optimizer, const at::Tensor& inv_scale,
                             const at::Tensor& zero);

  at::Tensor scale_;
  at::Tensor growth_tracker_;
  at::Tensor found_inf_;  // from Unscale to Update
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_GRAD_SCALER_H_
