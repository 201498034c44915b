// Devices of the runtime: count, choice, properties, attributes, versions, peers.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "src/vgpu/device_attributes.h"
#include "src/vgpu/device_identity.h"
#include "src/vgpu/driver_entry.h"
#include "src/vgpu/runtime.h"

namespace memmodel::vgpu {
namespace {

void FillProperties(int device, cudaDeviceProp* p) {
  State& state = State::Get();
  const DeviceSpec& spec = state.spec();
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "%s", spec.device_name.c_str());
  const Uuid uuid = DeviceUuid(device);
  std::memcpy(p->uuid.bytes, uuid.data(), uuid.size());
  p->totalGlobalMem = state.TotalBytes(device);
  p->pciBusID = static_cast<int>(spec.Get("pciBusID")) + device;
  const auto set = [&spec](const char* field, auto* value) {
    *value = static_cast<std::remove_reference_t<decltype(*value)>>(spec.Get(field));
  };
  const auto set_array = [&spec](const char* field, auto& values) {
    std::size_t index = 0;
    for (auto& value : values) value = static_cast<int>(spec.Get(field, index++));
  };
#define SET(field) set(#field, &p->field)
#define SET_ARRAY(field) set_array(#field, p->field)
  SET(luidDeviceNodeMask);
  SET(sharedMemPerBlock);
  SET(regsPerBlock);
  SET(warpSize);
  SET(memPitch);
  SET(maxThreadsPerBlock);
  SET_ARRAY(maxThreadsDim);
  SET_ARRAY(maxGridSize);
  SET(totalConstMem);
  SET(major);
  SET(minor);
  SET(textureAlignment);
  SET(texturePitchAlignment);
  SET(multiProcessorCount);
  SET(integrated);
  SET(canMapHostMemory);
  SET(maxTexture1D);
  SET(maxTexture1DMipmap);
  SET_ARRAY(maxTexture2D);
  SET_ARRAY(maxTexture2DMipmap);
  SET_ARRAY(maxTexture2DLinear);
  SET_ARRAY(maxTexture2DGather);
  SET_ARRAY(maxTexture3D);
  SET_ARRAY(maxTexture3DAlt);
  SET(maxTextureCubemap);
  SET_ARRAY(maxTexture1DLayered);
  SET_ARRAY(maxTexture2DLayered);
  SET_ARRAY(maxTextureCubemapLayered);
  SET(maxSurface1D);
  SET_ARRAY(maxSurface2D);
  SET_ARRAY(maxSurface3D);
  SET_ARRAY(maxSurface1DLayered);
  SET_ARRAY(maxSurface2DLayered);
  SET(maxSurfaceCubemap);
  SET_ARRAY(maxSurfaceCubemapLayered);
  SET(surfaceAlignment);
  SET(concurrentKernels);
  SET(ECCEnabled);
  SET(pciDeviceID);
  SET(pciDomainID);
  SET(tccDriver);
  SET(asyncEngineCount);
  SET(unifiedAddressing);
  SET(memoryBusWidth);
  SET(l2CacheSize);
  SET(persistingL2CacheMaxSize);
  SET(maxThreadsPerMultiProcessor);
  SET(streamPrioritiesSupported);
  SET(globalL1CacheSupported);
  SET(localL1CacheSupported);
  SET(sharedMemPerMultiprocessor);
  SET(regsPerMultiprocessor);
  SET(managedMemory);
  SET(isMultiGpuBoard);
  SET(multiGpuBoardGroupID);
  SET(hostNativeAtomicSupported);
  SET(pageableMemoryAccess);
  SET(concurrentManagedAccess);
  SET(computePreemptionSupported);
  SET(canUseHostPointerForRegisteredMem);
  SET(cooperativeLaunch);
  SET(sharedMemPerBlockOptin);
  SET(pageableMemoryAccessUsesHostPageTables);
  SET(directManagedMemAccessFromHost);
  SET(maxBlocksPerMultiProcessor);
  SET(accessPolicyMaxWindowSize);
  SET(reservedSharedMemPerBlock);
  SET(hostRegisterSupported);
  SET(sparseCudaArraySupported);
  SET(hostRegisterReadOnlySupported);
  SET(timelineSemaphoreInteropSupported);
  SET(memoryPoolsSupported);
  SET(gpuDirectRDMASupported);
  SET(gpuDirectRDMAFlushWritesOptions);
  SET(gpuDirectRDMAWritesOrdering);
  SET(memoryPoolSupportedHandleTypes);
  SET(deferredMappingCudaArraySupported);
  SET(ipcEventSupported);
  SET(clusterLaunch);
  SET(unifiedFunctionPointers);
#if CUDART_VERSION >= 13000
  SET(deviceNumaConfig);
  SET(deviceNumaId);
  SET(mpsEnabled);
  SET(hostNumaId);
  SET(gpuPciDeviceID);
  SET(gpuPciSubsystemID);
  SET(hostNumaMultinodeIpcSupported);
#else  // left out of CUDA 13's structure
  const auto set_attribute = [&spec, device](cudaDeviceAttr attribute, int* value) {
    *value = DeviceAttribute(spec, device, attribute).value_or(0);
  };
  set_attribute(cudaDevAttrClockRate, &p->clockRate);
  set_attribute(cudaDevAttrGpuOverlap, &p->deviceOverlap);
  set_attribute(cudaDevAttrKernelExecTimeout, &p->kernelExecTimeoutEnabled);
  set_attribute(cudaDevAttrComputeMode, &p->computeMode);
  set_attribute(cudaDevAttrMemoryClockRate, &p->memoryClockRate);
  set_attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio, &p->singleToDoublePrecisionPerfRatio);
#endif
#undef SET
#undef SET_ARRAY
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Note(cudaErrorInvalidValue);
  *count = State::Get().device_count();
  return *count == 0 ? Note(cudaErrorNoDevice) : cudaSuccess;
}

VGPU_API cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return Note(cudaErrorInvalidValue);
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  *device = State::CurrentDevice();
  return cudaSuccess;
}

VGPU_API cudaError_t cudaSetDevice(int device) {
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  State::SetCurrentDevice(device);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return ValidDevice(device) ? cudaSuccess : Note(cudaErrorInvalidDevice);
}

// In CUDA 12 the header makes this cudaGetDeviceProperties_v2; what CUDA 11 knew under this name had another layout.
VGPU_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  FillProperties(device, properties);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (value == nullptr) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  const auto found = DeviceAttribute(State::Get().spec(), device, attribute);
  if (!found) return Note(cudaErrorInvalidValue);
  *value = *found;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (text == nullptr || length < 1) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "%s", DevicePciBusId(device).c_str());
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  if (device == nullptr || text == nullptr) return Note(cudaErrorInvalidValue);
  for (int i = 0; i < State::Get().device_count(); ++i) {
    if (DevicePciBusId(i) == text) {
      *device = i;
      return cudaSuccess;
    }
  }
  return Note(cudaErrorInvalidDevice);
}

// The version of CUDA that this library is built for.
VGPU_API cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device) || !ValidDevice(peer)) return Note(cudaErrorInvalidDevice);
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(peer) || peer == State::CurrentDevice()) return Note(cudaErrorInvalidDevice);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return ValidDevice(peer) ? cudaSuccess : Note(cudaErrorInvalidDevice);
}

VGPU_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return Note(cudaErrorInvalidValue);
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
VGPU_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
VGPU_API cudaError_t cudaProfilerStop() { return cudaSuccess; }

// The driver's functions, from the libcuda that lies beside this library.
VGPU_API cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                      unsigned long long,
                                                      cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return Note(cudaErrorInvalidValue);
  // By its path: LD_LIBRARY_PATH may name a real driver's folder.
  static void* const driver = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&cudaProfilerStop), &info) == 0)
      return static_cast<void*>(nullptr);
    const std::string own = info.dli_fname;
    return dlopen((own.substr(0, own.rfind('/') + 1) + "libcuda.so.1").c_str(),
                  RTLD_NOW | RTLD_LOCAL);
  }();
  *function = driver == nullptr ? nullptr : DriverEntry(driver, symbol);
  if (status != nullptr) {
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return *function == nullptr ? Note(cudaErrorSymbolNotFound) : cudaSuccess;
}

VGPU_API cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
