// libcudnn's backend API: descriptors are recorded, and answered from what the
// real library said about them (cudnn_recording.h); nothing is executed.
#include <cudnn.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>

#include "src/vgpu/calls.h"
#include "src/vgpu/cudnn_plan.h"
#include "src/vgpu/cudnn_recording.h"
#include "src/vgpu/export.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"
#include "src/vgpu/streams.h"

namespace memmodel::vgpu {
namespace {

// What a program's cudnnBackendDescriptor_t points at.
struct Descriptor {
  RecordPtr record;
  std::int64_t order = 0;      // in which it was made
  std::int64_t workspace = 0;  // of a plan, as the program was told
};

Descriptor* Of(cudnnBackendDescriptor_t descriptor) { return static_cast<Descriptor*>(descriptor); }

// In nanoseconds. A plan takes longer than those made before it: programs make them in the
// heuristic's order, and cudnn-frontend drops plans that take equally long. Or it takes less
// the larger its workspace is, by a logarithm, because programs read times as floats, which
// must tell apart workspaces of bytes as well as of gigabytes.
std::int64_t ExecutionTime(const Descriptor& plan) {
  if (!State::Get().largest_workspace_fastest()) return plan.order;
  constexpr double kForEachDoubling = 1e6;
  const double doublings = std::log2(1.0 + static_cast<double>(plan.workspace));
  return std::llround((64 - doublings) * kForEachDoubling);
}

// Pointers and values of an execution: nothing is asked of the library about them.
bool IsVariantPack(const Record& record) {
  return record.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
}

cudnnStatus_t SetAttribute(Record& record, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, std::int64_t count,
                           const void* values) {
  if (record.final) return CUDNN_STATUS_NOT_INITIALIZED;
  if (IsVariantPack(record) && name != CUDNN_ATTR_VARIANT_PACK_WORKSPACE) {
    return CUDNN_STATUS_SUCCESS;
  }
  // The device's properties stand for handles and for devices by number.
  if (type == CUDNN_TYPE_HANDLE || record.type == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
    return CUDNN_STATUS_SUCCESS;
  }
  if (count < 0 || (values == nullptr && count > 0)) return CUDNN_STATUS_BAD_PARAM;
  Record::Attribute attribute{.name = name, .type = type, .count = count, .bytes = {}, .parts = {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* descriptors = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      if (descriptors[i] == nullptr) return CUDNN_STATUS_BAD_PARAM;
      attribute.parts.push_back(Of(descriptors[i])->record);
    }
  } else {
    attribute.bytes.assign(static_cast<const char*>(values),
                           static_cast<std::size_t>(count) * ValueBytes(type));
  }
  std::erase_if(record.attributes, [name](const Record::Attribute& a) { return a.name == name; });
  record.attributes.push_back(std::move(attribute));
  record.digest.reset();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GetAttribute(const RecordPtr& record, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, std::int64_t requested,
                           std::int64_t* count, void* values) {
  if (type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR) return CUDNN_STATUS_NOT_SUPPORTED;
  std::vector<RecordPtr> parts;
  const bool descriptors = type == CUDNN_TYPE_BACKEND_DESCRIPTOR && values != nullptr;
  if (descriptors) {
    for (std::int64_t i = 0; i < requested; ++i) {
      const cudnnBackendDescriptor_t descriptor =
          static_cast<const cudnnBackendDescriptor_t*>(values)[i];
      if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
      parts.push_back(Of(descriptor)->record);
    }
  }
  const cudnnStatus_t status =
      Answers::Get().Attribute(record, name, type, requested, count, values, &parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Of(static_cast<cudnnBackendDescriptor_t*>(values)[i])->record = parts[i];
  }
  return status;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {

void* memmodel_vgpu_real(const char* name) {
  return RealFunction(State::Get().cudnn_path(), "MEMMODEL_VGPU_CUDNN", name);
}

MEMMODEL_VGPU_EXPORT size_t cudnnGetVersion(void) {
  const std::lock_guard<std::mutex> lock(Answers::Mutex());
  return Answers::Get().Version();
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  static std::atomic<std::int64_t> made = 0;
  *descriptor = new Descriptor{.record = std::make_shared<Record>(type), .order = ++made};
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t
cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard<std::mutex> lock(Answers::Mutex());
  delete Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                            cudnnBackendAttributeName_t name,
                                                            cudnnBackendAttributeType_t type,
                                                            std::int64_t count,
                                                            const void* values) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const std::lock_guard<std::mutex> lock(Answers::Mutex());
  return SetAttribute(*Of(descriptor)->record, name, type, count, values);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const std::lock_guard<std::mutex> lock(Answers::Mutex());
  return Answers::Get().Finalize(Of(descriptor)->record);
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendGetAttribute(
    cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
    cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count, void* values) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const std::lock_guard<std::mutex> lock(Answers::Mutex());
  const RecordPtr& record = Of(descriptor)->record;
  const cudnnStatus_t status = GetAttribute(record, name, type, requested, count, values);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && status == CUDNN_STATUS_SUCCESS &&
      type == CUDNN_TYPE_INT64 && requested >= 1 && values != nullptr) {
    auto* bytes = static_cast<std::int64_t*>(values);
    *bytes = DeviceWorkspace(record, *bytes);
    Of(descriptor)->workspace = *bytes;
    Answers::Get().Flush();
  }
  return status;
}

// Executes nothing; says which convolution would have been.
MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                                       cudnnBackendDescriptor_t variant_pack) {
  static memmodel_vgpu_call call = {"cudnnBackendExecute", 0, nullptr};
  memmodel_vgpu_accept(&call);
  if (plan == nullptr || variant_pack == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::string key;
  std::uint64_t workspace = 0;
  std::int64_t time = 0;
  {
    const std::lock_guard<std::mutex> lock(Answers::Mutex());
    time = ExecutionTime(*Of(plan));
    key = WholeKey(Of(plan)->record);
    workspace = static_cast<std::uint64_t>(
        Of(variant_pack)->record->Number(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0, 0));
  }
  PassTime(time);
  if (!key.empty()) State::Get().TellConvolution(key.c_str(), workspace);
  return CUDNN_STATUS_SUCCESS;
}

MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t* stream) {
  *stream = nullptr;
  return CUDNN_STATUS_SUCCESS;
}

// Measured on an NVIDIA H200 with cuDNN 9.19 (driver 580.159.04).
MEMMODEL_VGPU_EXPORT cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* size) {
  *size = 6488064;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
