// Execution plans of one convolution: what they are, and the workspace that
// they need on the device.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_PLAN_H_
#define MEMMODEL_SRC_VGPU_CUDNN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "src/vgpu/cudnn_recording.h"
#include "src/vgpu/cudnn_stream_k.h"

namespace memmodel::vgpu {

// The convolution of an operation graph that consists of one 2-D or 3-D convolution, and how
// it is keyed:
//   op type N C H W K R S padH padW strideH strideW dilationH dilationW groups channels_last
// op: fwd, dgrad, wgrad; type: f32, f16, bf16; K output channels, C all input channels. In
// 3-D three numbers stand in place of each two.
struct ConvolutionPlan {
  ConvolutionShape shape;
  bool channels_last = false;
  std::string key;
  EngineChoice choice;
};
std::optional<ConvolutionPlan> DescribePlan(const RecordPtr& plan);

// The key of the plan's convolution if the key says all of it: dense tensors at aligned
// addresses, the same padding at both ends. Else empty.
std::string WholeKey(const RecordPtr& plan);

// The workspace of a finalized plan for which the library, which saw no
// device, says `bytes`: what a calibrated table says, if it has the same
// convolution and engine, else with the partial tiles of the device's own count.
std::int64_t DeviceWorkspace(const RecordPtr& plan, std::int64_t bytes);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_PLAN_H_
