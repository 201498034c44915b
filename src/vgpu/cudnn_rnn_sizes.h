// Sizes that cuDNN's recurrent networks need.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_RNN_SIZES_H_
#define MEMMODEL_SRC_VGPU_CUDNN_RNN_SIZES_H_

#include <cstdint>

namespace memmodel::vgpu {

struct RnnShape {
  int gates = 1;  // 4 LSTM, 3 GRU, 1 tanh and ReLU
  bool biases = true;
  std::int64_t directions = 1;
  std::int64_t element_bytes = 4;
  std::int64_t input = 0, hidden = 0, projected = 0;  // projected: hidden if there is no projection
  std::int64_t layers = 1;
  bool dropout = false;
};

// Bytes of all weights and biases, packed without gaps: 120,000 random
// descriptors agreed on an NVIDIA H200 (cuDNN 9.19, driver 580.159.04).
std::int64_t RnnWeightBytes(const RnnShape& shape);

// Where a matrix (linear layer `id`: gates of the input, then of the hidden
// state, then the projection) and its bias lie. Layers count directions:
// layer * directions + direction. All matrices come first, then all biases.
struct RnnPlace {
  std::int64_t matrix_offset = -1, rows = 0, columns = 0;  // -1: there is none
  std::int64_t bias_offset = -1;
};
RnnPlace FindRnnWeights(const RnnShape& shape, std::int64_t pseudo_layer, std::int64_t id);

// The reserve space of a training pass over `steps` time steps, summed over the
// batch's sequences: what each layer keeps (an LSTM its gates and cell, the
// others their gates), the outputs between layers, and a bit for each element
// that dropout may drop. Measured as above; equal for layers without dropout
// whose sizes are whole multiples of 32 bytes.
std::int64_t RnnReserveBytes(const RnnShape& shape, std::int64_t steps);

// The workspace of the standard algorithm: 8 MiB, a copy of the weights and a
// layer's gates. A lower bound: what cuDNN adds to it was measured but follows
// no rule that is known here.
std::int64_t RnnWorkspaceLowerBound(const RnnShape& shape, std::int64_t steps);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_RNN_SIZES_H_
