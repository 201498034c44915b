// libcudnn: the backend API is the real library's, with the device's properties
// in place of a handle (cuDNN 9.8 and later); nothing is executed.
#include <cudnn.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "src/vgpu/calls.h"
#include "src/vgpu/export.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(
      RealFunction(State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", name));
}

std::string DeviceProperties() {
  const DeviceSpec& spec = State::Get().spec();
  const auto at = [&spec](const char* field, std::size_t i = 0) { return spec.Get(field, i); };
  nlohmann::json json;
  json["maxGridSize"] = {at("maxGridSize", 0), at("maxGridSize", 1), at("maxGridSize", 2)};
  json["maxBlockSize"] = {at("maxThreadsDim", 0), at("maxThreadsDim", 1), at("maxThreadsDim", 2)};
  json["regsPerBlock"] = at("regsPerBlock");
  json["multiProcessorCount"] = at("multiProcessorCount");
  json["warpSize"] = at("warpSize");
  json["maxSharedMemoryPerBlock"] = at("sharedMemPerBlock");
  json["maxSharedMemoryPerBlockOptin"] = at("sharedMemPerBlockOptin");
  json["reservedSharedMemoryPerBlock"] = at("reservedSharedMemPerBlock");
  json["maxRegistersPerSM"] = at("regsPerMultiprocessor");
  json["maxCtasPerSM"] = at("maxBlocksPerMultiProcessor");
  json["maxThreadsPerBlock"] = at("maxThreadsPerBlock");
  json["maxThreadsPerSM"] = at("maxThreadsPerMultiProcessor");
  json["pciDeviceId"] = at("pciDeviceID");
  json["isTccDriver"] = at("tccDriver");
  json["supportCoopLaunch"] = at("cooperativeLaunch");
  json["totalGlobalMem"] = spec.total_bytes;
  json["smClockRateKHz"] = at("smClockRateKHz");
  json["memClockRateKHz"] = at("memClockRateKHz");
  json["l2CacheSize"] = at("l2CacheSize");
  json["cudaDeviceId"] = 0;
  json["deviceVer"] = 100 * at("major") + 10 * at("minor");
  json["driverVer"] = 13000;
  json["deviceName"] = spec.device_name;
  return json.dump();
}

cudnnBackendDescriptor_t DeviceDescriptor() {
  static const cudnnBackendDescriptor_t descriptor = [] {
    const std::string json = DeviceProperties();
    cudnnBackendDescriptor_t made = nullptr;
    Real<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor")(
        CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made);
    Real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute")(
        made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        static_cast<std::int64_t>(json.size()), json.data());
    Real<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize")(made);
    return made;
  }();
  return descriptor;
}

std::mutex mutex;
std::unordered_map<cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t> types;

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {

void* memmodel_vgpu_real(const char* name) {
  return RealFunction(State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", name);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static auto* real = Real<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  const cudnnStatus_t status = real(type, descriptor);
  const std::lock_guard<std::mutex> lock(mutex);
  if (status == CUDNN_STATUS_SUCCESS) types[*descriptor] = type;
  return status;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  static auto* real =
      Real<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  {
    const std::lock_guard<std::mutex> lock(mutex);
    types.erase(descriptor);
  }
  return real(descriptor);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  static auto* real = Real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) {
    const cudnnBackendDescriptor_t device = DeviceDescriptor();
    return real(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &device);
  }
  return real(descriptor, name, type, count, values);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static auto* real = Real<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  static auto* set = Real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  bool heuristic = false;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = types.find(descriptor);
    heuristic = found != types.end() && found->second == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  }
  if (heuristic) {
    const cudnnBackendDescriptor_t device = DeviceDescriptor();
    set(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
  }
  return real(descriptor);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t* stream) {
  *stream = nullptr;
  return CUDNN_STATUS_SUCCESS;
}

// Measured on an NVIDIA H200 with cuDNN 9.19: no workspace in NCHW.
MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* size) {
  *size = 0;
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* size) {
  *size = 0;
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t, size_t* size) {
  *size = 0;
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* size) {
  *size = std::size_t{1} << 20;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
