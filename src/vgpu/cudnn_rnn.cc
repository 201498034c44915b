// libcudnn's recurrent networks: descriptors are kept, sizes are computed
// (cudnn_rnn_sizes.h), nothing is executed.
#include <cudnn.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "src/vgpu/calls.h"
#include "src/vgpu/cudnn_recording.h"
#include "src/vgpu/cudnn_rnn_sizes.h"
#include "src/vgpu/export.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"

namespace {

using memmodel::vgpu::RnnBatch;
using memmodel::vgpu::RnnPlace;
using memmodel::vgpu::RnnShape;
using memmodel::vgpu::RnnSize;

struct Network {
  RnnShape shape;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool standard = true;  // the algorithm
};
struct Sequences {
  RnnBatch batch;
  bool batch_major = false;
};

Network* Of(cudnnRNNDescriptor_t descriptor) { return reinterpret_cast<Network*>(descriptor); }
Sequences* Of(cudnnRNNDataDescriptor_t descriptor) {
  return reinterpret_cast<Sequences*>(descriptor);
}

cudnnStatus_t SetMatrix(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, std::int64_t rows,
                        std::int64_t columns) {
  static auto* set = reinterpret_cast<decltype(cudnnSetTensorNdDescriptor)*>(
      memmodel::vgpu::RealFunction(memmodel::vgpu::State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN",
                                   "cudnnSetTensorNdDescriptor"));
  const int sizes[3] = {1, static_cast<int>(rows), static_cast<int>(columns)};
  const int strides[3] = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
  return set(descriptor, type, 3, sizes, strides);
}

// The rates of dropout descriptors, which the real library keeps otherwise.
std::mutex rates_mutex;
std::map<cudnnDropoutDescriptor_t, float> rates;

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t,
                                        float rate, void*, size_t, unsigned long long) {
  static memmodel_vgpu_call call = {"cudnnSetDropoutDescriptor", 0, nullptr};
  memmodel_vgpu_accept(&call);
  const std::lock_guard<std::mutex> lock(rates_mutex);
  rates[descriptor] = rate;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                            cudnnHandle_t handle, float rate, void* states,
                                            size_t bytes, unsigned long long seed) {
  return cudnnSetDropoutDescriptor(descriptor, handle, rate, states, bytes, seed);
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = reinterpret_cast<cudnnRNNDescriptor_t>(new Network);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t, cudnnMathType_t,
                                       int32_t input_size, int32_t hidden_size,
                                       int32_t projected_size, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const bool known =
      type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  // A persistent kernel takes no projection; torch then asks for the standard one.
  if (!known || input != CUDNN_LINEAR_INPUT || input_size < 1 || hidden_size < 1 ||
      projected_size < 1 || layers < 1 ||
      (algorithm != CUDNN_RNN_ALGO_STANDARD && projected_size != hidden_size)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  Network& network = *Of(descriptor);
  network.type = type;
  network.standard = algorithm == CUDNN_RNN_ALGO_STANDARD;
  network.shape = {.gates = cell == CUDNN_LSTM  ? 4
                            : cell == CUDNN_GRU ? 3
                                                : 1,
                   .biases = bias != CUDNN_RNN_NO_BIAS,
                   .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                   .element_bytes = type == CUDNN_DATA_FLOAT ? 4 : 2,
                   .input = input_size,
                   .hidden = hidden_size,
                   .projected = projected_size,
                   .layers = layers,
                   .dropout = false};
  {
    const std::lock_guard<std::mutex> lock(rates_mutex);
    const auto rate = rates.find(dropout);
    network.shape.dropout = rate != rates.end() && rate->second > 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *descriptor = reinterpret_cast<cudnnRNNDataDescriptor_t>(new Sequences);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  delete Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor, cudnnDataType_t,
                                        cudnnRNNDataLayout_t layout, int longest, int batch, int,
                                        const int lengths[], void*) {
  if (descriptor == nullptr || lengths == nullptr || longest < 1 || batch < 1) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  Sequences& sequences = *Of(descriptor);
  sequences.batch_major = layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
  sequences.batch = {.steps = 0,
                     .longest = longest,
                     .sequences = batch,
                     .padded = layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED};
  for (int i = 0; i < batch; ++i) {
    if (lengths[i] < 0 || lengths[i] > longest) return CUDNN_STATUS_BAD_PARAM;
    sequences.batch.steps += lengths[i];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                         size_t* bytes) {
  if (descriptor == nullptr || bytes == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *bytes = static_cast<size_t>(memmodel::vgpu::RnnWeightBytes(Of(descriptor)->shape));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t data,
                                        size_t* workspace, size_t* reserve) {
  if (descriptor == nullptr || data == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const Network& network = *Of(descriptor);
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  bool exact = true;
  if (workspace != nullptr) {
    const RnnSize size = memmodel::vgpu::RnnWorkspace(network.shape, Of(data)->batch, training);
    *workspace = static_cast<size_t>(size.bytes);
    exact = size.exact && network.standard && !Of(data)->batch_major;
  }
  if (reserve != nullptr) {
    *reserve = 0;
    if (training) {
      const RnnSize size = memmodel::vgpu::RnnReserve(network.shape, Of(data)->batch);
      *reserve = static_cast<size_t>(size.bytes);
      exact = exact && size.exact;
    }
  }
  static const bool measured = memmodel::vgpu::IsMeasured(
      reinterpret_cast<decltype(cudnnGetVersion)*>(memmodel::vgpu::RealFunction(
          memmodel::vgpu::State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", "cudnnGetVersion"))());
  if (!exact || !measured) {
    static memmodel_vgpu_call call = {"cudnnGetRNNTempSpaceSizes", 0, nullptr};
    memmodel_vgpu_approximate(&call);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                      int32_t pseudo_layer, size_t bytes, const void* weights,
                                      int32_t id, cudnnTensorDescriptor_t matrix,
                                      void** matrix_address, cudnnTensorDescriptor_t bias,
                                      void** bias_address) {
  if (descriptor == nullptr || weights == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const Network& network = *Of(descriptor);
  if (static_cast<std::int64_t>(bytes) < memmodel::vgpu::RnnWeightBytes(network.shape)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const RnnPlace place = memmodel::vgpu::FindRnnWeights(network.shape, pseudo_layer, id);
  auto* base = const_cast<char*>(static_cast<const char*>(weights));
  if (matrix_address != nullptr) {
    *matrix_address = place.matrix_offset < 0 ? nullptr : base + place.matrix_offset;
  }
  if (bias_address != nullptr) {
    *bias_address = place.bias_offset < 0 ? nullptr : base + place.bias_offset;
  }
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (matrix != nullptr && place.matrix_offset >= 0) {
    status = SetMatrix(matrix, network.type, place.rows, place.columns);
  }
  if (status == CUDNN_STATUS_SUCCESS && bias != nullptr && place.bias_offset >= 0) {
    status = SetMatrix(bias, network.type, network.shape.hidden, 1);
  }
  return status;
}

#pragma GCC visibility pop
}  // extern "C"
