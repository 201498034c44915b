// The workspace that cuDNN's split-K ("stream-K") convolution kernels for
// Hopper need: how many partial tiles they write depends on how many thread
// block clusters the GPU can hold, which cuDNN asks the driver and which a plan
// made from device properties therefore lacks.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_STREAM_K_H_
#define MEMMODEL_SRC_VGPU_CUDNN_STREAM_K_H_

#include <cstdint>
#include <optional>

namespace memmodel::vgpu {

enum class ConvolutionOp { kForward, kBackwardData, kBackwardFilter };

enum class ElementType { kFloat, kHalf, kBFloat16 };

// One 2-D or 3-D convolution as cuDNN's backend describes it. Sizes in elements; the
// depth of 3-D (of the input, the filter and the output) is a factor of h, r and p.
struct ConvolutionShape {
  ConvolutionOp op = ConvolutionOp::kForward;
  ElementType type = ElementType::kFloat;  // of x, w and y
  std::int64_t n = 0, c = 0, h = 0, w = 0;
  std::int64_t k = 0, r = 0, s = 0;
  std::int64_t p = 0, q = 0;  // output height and width
  std::int64_t groups = 1;
};

// An engine configuration: global engine index and the knobs that matter here
// (cudnnBackendKnobType_t).
struct EngineChoice {
  std::int64_t engine = -1;
  std::int64_t tile_size = -1;  // CUDNN_KNOB_TYPE_TILE_SIZE
  std::int64_t tile_k = -1;     // CUDNN_KNOB_TYPE_TILEK
  std::int64_t workspace = -1;  // CUDNN_KNOB_TYPE_WORKSPACE: 0 splits K, 1 does not
  std::int64_t cluster_m = -1;  // CUDNN_KNOB_TYPE_TILE_CGA_M
  std::int64_t cluster_n = -1;  // CUDNN_KNOB_TYPE_TILE_CGA_N
};

// The part of the workspace that holds partial tiles and their counters on a
// GPU that holds `clusters` clusters of this choice at once, in bytes. Nothing
// if the choice is none of the stream-K kernels that the rule covers.
std::optional<std::int64_t> StreamKBytes(const ConvolutionShape& shape, const EngineChoice& choice,
                                         std::int64_t clusters);

// How many clusters cuDNN assumes where it cannot ask a driver: those of 18
// multiprocessors with one thread block each.
std::int64_t DevicelessClusters(const EngineChoice& choice);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_STREAM_K_H_
