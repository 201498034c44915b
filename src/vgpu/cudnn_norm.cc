// libcudnn's batch norm and CTC loss: their workspaces are computed
// (cudnn_norm_sizes.h), nothing is executed.
#include <cudnn.h>

#include <algorithm>
#include <cstdint>

#include "src/vgpu/calls.h"
#include "src/vgpu/cudnn_norm_sizes.h"
#include "src/vgpu/cudnn_recording.h"
#include "src/vgpu/export.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"

namespace {

using memmodel::vgpu::BatchNormShape;
using memmodel::vgpu::CtcShape;

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(memmodel::vgpu::RealFunction(
      memmodel::vgpu::State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", name));
}

// Marks a size that no GPU with this cuDNN was asked for.
void MarkUnlessMeasured(memmodel_vgpu_call* call) {
  static const bool measured =
      memmodel::vgpu::IsMeasured(Real<decltype(cudnnGetVersion)>("cudnnGetVersion")());
  if (!measured) memmodel_vgpu_approximate(call);
}

// A tensor of the real library's, which keeps the descriptors.
struct Tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int dimensions = 0;
  int sizes[CUDNN_DIM_MAX] = {};
  int strides[CUDNN_DIM_MAX] = {};
};

cudnnStatus_t Read(cudnnTensorDescriptor_t descriptor, Tensor* tensor) {
  static auto* get = Real<decltype(cudnnGetTensorNdDescriptor)>("cudnnGetTensorNdDescriptor");
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  return get(descriptor, CUDNN_DIM_MAX, &tensor->type, &tensor->dimensions, tensor->sizes,
             tensor->strides);
}

using BytesOfShape = std::int64_t(const BatchNormShape&);

cudnnStatus_t BatchNorm(memmodel_vgpu_call* call, cudnnBatchNormMode_t mode,
                        cudnnBatchNormOps_t operations, cudnnTensorDescriptor_t x,
                        BytesOfShape* bytes, size_t* size) {
  if (size == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  Tensor tensor;
  if (const cudnnStatus_t s = Read(x, &tensor); s != CUDNN_STATUS_SUCCESS) return s;
  const bool half = tensor.type == CUDNN_DATA_HALF || tensor.type == CUDNN_DATA_BFLOAT16;
  if (operations != CUDNN_BATCHNORM_OPS_BN || !(half || tensor.type == CUDNN_DATA_FLOAT)) {
    memmodel_vgpu_refuse(call);
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  *size = 0;
  if (mode != CUDNN_BATCHNORM_SPATIAL_PERSISTENT || tensor.dimensions < 4 ||
      !memmodel::vgpu::IsChannelsLast(tensor.sizes, tensor.strides, tensor.dimensions)) {
    return CUDNN_STATUS_SUCCESS;
  }
  BatchNormShape shape{
      .rows = tensor.sizes[0], .channels = tensor.sizes[1], .element_bytes = half ? 2 : 4};
  for (int i = 2; i < tensor.dimensions; ++i) shape.rows *= tensor.sizes[i];
  *size = static_cast<size_t>(bytes(shape));
  // Where no GPU was there to ask, the rule is taken over.
  if (*size > 0 && memmodel::vgpu::State::Get().spec().ComputeCapability() != 90) {
    memmodel_vgpu_approximate(call);
  } else if (*size > 0) {
    MarkUnlessMeasured(call);
  }
  return CUDNN_STATUS_SUCCESS;
}

// The probabilities of a CTC loss: steps, batch, classes.
cudnnStatus_t ReadCtc(cudnnTensorDescriptor_t probabilities, CtcShape* shape) {
  Tensor tensor;
  if (const cudnnStatus_t s = Read(probabilities, &tensor); s != CUDNN_STATUS_SUCCESS) return s;
  if (tensor.dimensions < 3) return CUDNN_STATUS_BAD_PARAM;
  shape->steps = tensor.sizes[0];
  shape->batch = tensor.sizes[1];
  shape->classes = tensor.sizes[2];
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t, size_t* size) {
  static memmodel_vgpu_call call = {"cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", 0,
                                    nullptr};
  return BatchNorm(&call, mode, operations, x, memmodel::vgpu::BatchNormForwardBytes, size);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* size) {
  static memmodel_vgpu_call call = {"cudnnGetBatchNormalizationBackwardExWorkspaceSize", 0,
                                    nullptr};
  return BatchNorm(&call, mode, operations, x, memmodel::vgpu::BatchNormBackwardBytes, size);
}

// Measured on an NVIDIA H200 with cuDNN 9.19: 0 in every layout and mode.
MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t x, size_t* size) {
  static memmodel_vgpu_call call = {"cudnnGetBatchNormalizationTrainingExReserveSpaceSize", 0,
                                    nullptr};
  return BatchNorm(
      &call, mode, operations, x, [](const BatchNormShape&) { return std::int64_t{0}; }, size);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetCTCLossWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t probabilities, const cudnnTensorDescriptor_t,
    const int*, const int* label_lengths, const int*, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t,
    size_t* size) {
  if (label_lengths == nullptr || size == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  CtcShape shape;
  if (const cudnnStatus_t s = ReadCtc(probabilities, &shape); s != CUDNN_STATUS_SUCCESS) return s;
  shape.longest_label = *std::max_element(label_lengths, label_lengths + shape.batch);
  *size = static_cast<size_t>(memmodel::vgpu::CtcWorkspaceBytes(shape));
  static memmodel_vgpu_call call = {"cudnnGetCTCLossWorkspaceSize", 0, nullptr};
  MarkUnlessMeasured(&call);
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(
    cudnnHandle_t, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t descriptor,
    const cudnnTensorDescriptor_t probabilities, const cudnnTensorDescriptor_t, size_t* size) {
  static auto* get = Real<decltype(cudnnGetCTCLossDescriptor_v9)>("cudnnGetCTCLossDescriptor_v9");
  if (descriptor == nullptr || size == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  CtcShape shape;
  if (const cudnnStatus_t s = ReadCtc(probabilities, &shape); s != CUDNN_STATUS_SUCCESS) return s;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnLossNormalizationMode_t mode = CUDNN_LOSS_NORMALIZATION_NONE;
  cudnnCTCGradMode_t gradient = CUDNN_CTC_ZERO_OOB_GRADIENTS;
  int longest = 0;
  const cudnnStatus_t s = get(descriptor, &type, &mode, &gradient, &longest);
  if (s != CUDNN_STATUS_SUCCESS) return s;
  shape.longest_label = longest;
  *size = static_cast<size_t>(memmodel::vgpu::CtcWorkspaceV8Bytes(shape));
  static memmodel_vgpu_call call = {"cudnnGetCTCLossWorkspaceSize_v8", 0, nullptr};
  MarkUnlessMeasured(&call);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
