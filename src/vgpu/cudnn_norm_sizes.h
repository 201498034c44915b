// Workspaces of cuDNN's batch norm and CTC loss. Measured on an NVIDIA H200
// (cuDNN 9.19, driver 580.159.04), where both rules gave every answer to the byte.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_NORM_SIZES_H_
#define MEMMODEL_SRC_VGPU_CUDNN_NORM_SIZES_H_

#include <cstdint>

namespace memmodel::vgpu {

// A batch of `rows` (images times pixels) by `channels`.
struct BatchNormShape {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  std::int64_t element_bytes = 4;
};

// Workspace of CUDNN_BATCHNORM_SPATIAL_PERSISTENT in channels_last, without
// activation; in all other layouts and modes it is 0. Thread blocks take tiles of
// channels by rows and leave two fp32 sums for each channel of their tile (going
// forward also a counter), then come a counter for each tile of channels and a
// head of fixed size. The number of multiprocessors does not enter.
std::int64_t BatchNormForwardBytes(const BatchNormShape& shape);
std::int64_t BatchNormBackwardBytes(const BatchNormShape& shape);

// Whether sizes and strides are those of a packed tensor whose channels
// (dimension 1) lie innermost. Strides of dimensions of size one say nothing: one
// channel, or one pixel, is both layouts, and cuDNN takes it as this one.
bool IsChannelsLast(const int* sizes, const int* strides, int dimensions);

struct CtcShape {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t classes = 0;        // with the blank
  std::int64_t longest_label = 0;  // v8: what the descriptor allows
};

// For each sequence: the fp32 gradient of steps by classes; forward and backward
// variables, for each step one for each label and for the blanks between them;
// those labels and blanks; two lengths. The same for both algorithms.
std::int64_t CtcWorkspaceV8Bytes(const CtcShape& shape);
// The query that gets the labels from the host keeps a copy of them, with two
// lengths more.
std::int64_t CtcWorkspaceBytes(const CtcShape& shape);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_NORM_SIZES_H_
