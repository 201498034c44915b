#include "src/vgpu/cudnn_rnn_sizes.h"

#include <algorithm>

namespace memmodel::vgpu {
namespace {

bool HasProjection(const RnnShape& shape) { return shape.projected != shape.hidden; }

std::int64_t LayerInput(const RnnShape& shape, std::int64_t layer) {
  return layer == 0 ? shape.input : shape.directions * shape.projected;
}

// Elements of the matrices of one direction of a layer.
std::int64_t Matrices(const RnnShape& shape, std::int64_t layer) {
  return shape.gates * shape.hidden * (LayerInput(shape, layer) + shape.projected) +
         (HasProjection(shape) ? shape.hidden * shape.projected : 0);
}

std::int64_t AllMatrices(const RnnShape& shape, std::int64_t pseudo_layers) {
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < pseudo_layers; ++i)
    elements += Matrices(shape, i / shape.directions);
  return elements;
}

constexpr std::int64_t kAlignment = 32;
constexpr std::int64_t Align(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
// Rows need no padding; with it sizes differ by some bytes.
bool IsAligned(const RnnShape& shape) {
  return shape.input * shape.element_bytes % kAlignment == 0 &&
         shape.hidden * shape.element_bytes % kAlignment == 0;
}

constexpr std::int64_t kLayerBytes = std::int64_t{8} << 20;
constexpr std::int64_t kForwardSteps = 256;
constexpr std::int64_t kHead = 256;

}  // namespace

std::int64_t RnnWeightBytes(const RnnShape& shape) {
  const std::int64_t pseudo_layers = shape.layers * shape.directions;
  const std::int64_t biases =
      shape.biases ? pseudo_layers * 2 * shape.gates * shape.hidden : std::int64_t{0};
  return shape.element_bytes * (AllMatrices(shape, pseudo_layers) + biases);
}

RnnPlace FindRnnWeights(const RnnShape& shape, std::int64_t pseudo_layer, std::int64_t id) {
  RnnPlace place;
  const std::int64_t pseudo_layers = shape.layers * shape.directions;
  const bool projection = id == 2 * shape.gates && HasProjection(shape);
  if (pseudo_layer < 0 || pseudo_layer >= pseudo_layers || id < 0 ||
      (id >= 2 * shape.gates && !projection)) {
    return place;
  }
  const std::int64_t input = LayerInput(shape, pseudo_layer / shape.directions);
  std::int64_t offset = AllMatrices(shape, pseudo_layer);
  if (projection) {
    offset += shape.gates * shape.hidden * (input + shape.projected);
    place.rows = shape.projected;
    place.columns = shape.hidden;
  } else if (id < shape.gates) {
    offset += id * shape.hidden * input;
    place.rows = shape.hidden;
    place.columns = input;
  } else {
    offset += shape.hidden * (shape.gates * input + (id - shape.gates) * shape.projected);
    place.rows = shape.hidden;
    place.columns = shape.projected;
  }
  place.matrix_offset = shape.element_bytes * offset;
  if (shape.biases && !projection) {
    place.bias_offset =
        shape.element_bytes *
        (AllMatrices(shape, pseudo_layers) + (pseudo_layer * 2 * shape.gates + id) * shape.hidden);
  }
  return place;
}

RnnSize RnnReserve(const RnnShape& shape, const RnnBatch& batch) {
  const std::int64_t state = batch.steps * shape.hidden * shape.element_bytes;
  // LSTM: four gates and the cell; GRU: six (both halves of its gates); others: one.
  const std::int64_t gates = shape.gates == 3 ? 6 : shape.gates;
  const std::int64_t cell = shape.gates == 4 ? Align(state) : 0;
  std::int64_t between =
      Align(shape.directions * batch.steps * shape.projected * shape.element_bytes);
  if (shape.dropout) {
    const std::int64_t elements =
        shape.directions * batch.longest * batch.sequences * shape.projected;
    between += shape.directions * Align((elements + 7) / 8);
  }
  return {.bytes = shape.layers * shape.directions * (Align(gates * state) + cell) +
                   (shape.layers - 1) * between + 256,
          .exact = !HasProjection(shape) && IsAligned(shape)};
}

RnnSize RnnWorkspace(const RnnShape& shape, const RnnBatch& batch, bool training) {
  const bool both = shape.directions == 2;
  const std::int64_t row = shape.hidden * shape.element_bytes;
  const std::int64_t state = batch.sequences * row * shape.layers;
  const std::int64_t input = batch.steps * shape.input * shape.element_bytes;
  const std::int64_t output = batch.steps * row;
  const bool in_pieces = !both && batch.longest > kForwardSteps;
  const bool full = batch.steps == batch.longest * batch.sequences;
  const std::int64_t piece =
      in_pieces ? std::min(batch.steps, kForwardSteps * batch.sequences) * row : output;

  // States by which a pass keeps each layer and direction, and outputs.
  const std::int64_t forward_states = shape.gates == 4 ? 6 : shape.gates;
  std::int64_t forward = shape.directions * (shape.gates * piece + forward_states * state) + kHead;
  if (both) forward += 4 * (piece + state);
  if (shape.dropout && !both) forward += output;

  std::int64_t backward = kHead;
  if (both) {
    backward += 4 * std::max(input, output) + (shape.layers == 1 ? 2 : 4) * output +
                (shape.gates == 4 ? 10 : 6) * state;
  } else {
    backward += std::max(input, output) + output + (shape.gates == 4 ? 3 : 1) * state;
  }

  if (batch.padded) {
    const std::int64_t padded = batch.longest * batch.sequences;
    const std::int64_t packed =
        padded * (shape.input * shape.element_bytes + shape.directions * row) +
        (shape.gates == 4 ? 4 : 2) * shape.directions * state;
    const std::int64_t lengths = Align(8 * batch.sequences);
    forward += packed + lengths;
    backward += 2 * packed + lengths;
  }

  RnnSize size{.bytes = 0,
               .exact = !HasProjection(shape) && IsAligned(shape) && (full || !in_pieces)};
  size.bytes = kLayerBytes * shape.layers * shape.directions +
               shape.element_bytes * AllMatrices(shape, shape.layers * shape.directions) +
               (training ? std::max(forward, backward) : forward);
  const bool backward_known = both || (shape.layers == 1 && !shape.dropout);
  if (training && backward > forward && !backward_known) size.exact = false;
  return size;
}

}  // namespace memmodel::vgpu
