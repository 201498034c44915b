#include "src/vgpu/cudnn_rnn_sizes.h"

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
  for (std::int64_t i = 0; i < pseudo_layers; ++i) elements += Matrices(shape, i / shape.directions);
  return elements;
}

constexpr std::int64_t Align(std::int64_t bytes, std::int64_t to) {
  return (bytes + to - 1) / to * to;
}

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
        shape.element_bytes * (AllMatrices(shape, pseudo_layers) +
                               (pseudo_layer * 2 * shape.gates + id) * shape.hidden);
  }
  return place;
}

std::int64_t RnnReserveBytes(const RnnShape& shape, std::int64_t steps) {
  const std::int64_t state = steps * shape.hidden * shape.element_bytes;
  // LSTM: four gates and the cell; GRU: six (both halves of its gates); others: one.
  const std::int64_t gates = shape.gates == 3 ? 6 : shape.gates;
  const std::int64_t cell = shape.gates == 4 ? Align(state, 32) : 0;
  const std::int64_t output = shape.directions * steps * shape.projected;
  std::int64_t between = Align(output * shape.element_bytes, 32);
  if (shape.dropout) between += Align(shape.directions * output / 8, 32);
  return shape.layers * shape.directions * (Align(gates * state, 32) + cell) +
         (shape.layers - 1) * between + 256;
}

std::int64_t RnnWorkspaceLowerBound(const RnnShape& shape, std::int64_t steps) {
  return (std::int64_t{8} << 20) + RnnWeightBytes(shape) +
         shape.directions * shape.gates * steps * shape.hidden * shape.element_bytes;
}

}  // namespace memmodel::vgpu
