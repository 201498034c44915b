// Initialisation, devices and contexts of the driver. A device has one context,
// the primary one.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "src/vgpu/device_attributes.h"
#include "src/vgpu/device_identity.h"
#include "src/vgpu/driver.h"
#include "src/vgpu/streams.h"

namespace memmodel::vgpu {
namespace {

struct Context {
  int device = 0;
};

Context* PrimaryContext(int device) {
  static std::array<Context, kMostDevices> contexts;
  Context* context = &contexts[static_cast<std::size_t>(device)];
  context->device = device;
  return context;
}

thread_local std::vector<int> pushed;  // devices under the current one

CUcontext ToHandle(Context* context) { return reinterpret_cast<CUcontext>(context); }

// The CUDA runtimes inside NVIDIA's own cuDNN and cuBLAS, which stand-ins
// forward to, must not find a device: they would load code onto it. They are
// told apart by the library that the call comes from.
bool CalledFromRealLibrary(const void* return_address) {
  Dl_info info;
  if (dladdr(return_address, &info) == 0 || info.dli_fname == nullptr) return false;
  std::string_view file = info.dli_fname;
  file = file.substr(file.rfind('/') + 1);
  return file.starts_with("libcudnn") || file.starts_with("libcublas");
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API CUresult cuInit(unsigned) {
  if (CalledFromRealLibrary(__builtin_return_address(0))) return CUDA_ERROR_NO_DEVICE;
  return State::Get().device_count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

VGPU_API CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = State::Get().device_count();
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (name == nullptr || length < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s",
                State::Get().spec().device_name.c_str());
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Uuid bytes = DeviceUuid(device);
  std::memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (text == nullptr || length < 1) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(text, static_cast<std::size_t>(length), "%s", DevicePciBusId(device).c_str());
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = State::Get().TotalBytes(device);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                       CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = DeviceAttribute(State::Get().spec(), device, attribute);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *value = *found;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = ToHandle(PrimaryContext(device));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return ValidDevice(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

VGPU_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) {
  return ValidDevice(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

VGPU_API CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (State::Get().device_count() == 0) return CUDA_ERROR_NOT_INITIALIZED;
  *context = ToHandle(PrimaryContext(State::CurrentDevice()));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr) State::SetCurrentDevice(reinterpret_cast<Context*>(context)->device);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  pushed.push_back(State::CurrentDevice());
  return cuCtxSetCurrent(context);
}

VGPU_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context != nullptr) *context = ToHandle(PrimaryContext(State::CurrentDevice()));
  if (pushed.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  State::SetCurrentDevice(pushed.back());
  pushed.pop_back();
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_CTX_SCHED_AUTO;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = ToHandle(PrimaryContext(FindStream(stream)->device));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!ValidDevice(device) || !ValidDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device == peer ? 0 : 1;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = State::CurrentDevice();
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
