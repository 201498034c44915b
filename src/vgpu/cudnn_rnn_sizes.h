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

// The sequences of a batch.
struct RnnBatch {
  std::int64_t steps = 0;    // summed over the sequences
  std::int64_t longest = 0;  // steps of the longest one
  std::int64_t sequences = 0;
  // The sequences stand as steps by sequences, padded to the longest one; else
  // they are packed, longest first.
  bool padded = false;
};

// `exact`: on an NVIDIA H200 (cuDNN 9.19, driver 580.159.04) every random
// descriptor of this kind got the same bytes. If not, what `bytes` is near.
struct RnnSize {
  std::int64_t bytes = 0;
  bool exact = true;
};

// The reserve space of a training pass: what each layer keeps (an LSTM its gates
// and cell, the others their gates), the outputs between layers, and a bit for
// each element that dropout may drop, padding included.
RnnSize RnnReserve(const RnnShape& shape, const RnnBatch& batch);

// The workspace of the standard algorithm: for each layer and direction 8 MiB,
// the matrices, and the larger of what the passes need:
// - forward the gates of one layer (of one direction at most 256 steps, which are
//   then worked off in pieces) and some states of each layer;
// - backward the gradients of a layer's input and output. Unidirectional networks
//   of several layers do this in pieces too, of a length that is not known: exact
//   is then only what the forward pass decides;
// padded batches are also packed: input, output, states and their gradients.
RnnSize RnnWorkspace(const RnnShape& shape, const RnnBatch& batch, bool training);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_RNN_SIZES_H_
