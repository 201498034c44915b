// What scripts often add around the optimizer: clipping and weight averages.
#ifndef MEMMODEL_SRC_STEP_CLIP_H_
#define MEMMODEL_SRC_STEP_CLIP_H_

#include <vector>

#include "src/step/model.h"

namespace memmodel::step {

// torch.nn.utils.clip_grad_norm_(parameters, max_norm), with its temporaries.
void ClipGradNorm(const std::vector<NamedTensor>& parameters, double max_norm);

// An exponential moving average of the weights: a copy of each parameter, and its
// update by one foreach lerp (torch.optim.swa_utils.get_ema_multi_avg_fn).
std::vector<at::Tensor> StartAverage(const std::vector<NamedTensor>& parameters);
void UpdateAverage(std::vector<at::Tensor>& average, const std::vector<NamedTensor>& parameters);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_CLIP_H_
