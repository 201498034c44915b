#include "src/vgpu/device_attributes.h"

#include <algorithm>
#include <iterator>

namespace memmodel::vgpu {
namespace {

constexpr AttributeField kAttributes[] = {
    {1, "maxThreadsPerBlock", 0},
    {2, "maxThreadsDim", 0},
    {3, "maxThreadsDim", 1},
    {4, "maxThreadsDim", 2},
    {5, "maxGridSize", 0},
    {6, "maxGridSize", 1},
    {7, "maxGridSize", 2},
    {8, "sharedMemPerBlock", 0},
    {9, "totalConstMem", 0},
    {10, "warpSize", 0},
    {11, "memPitch", 0},
    {12, "regsPerBlock", 0},
    {13, "smClockRateKHz", 0},
    {14, "textureAlignment", 0},
    {15, "asyncEngineCount", 0},
    {16, "multiProcessorCount", 0},
    {17, "kernelExecTimeoutEnabled", 0},
    {18, "integrated", 0},
    {19, "canMapHostMemory", 0},
    {20, "computeMode", 0},
    {21, "maxTexture1D", 0},
    {22, "maxTexture2D", 0},
    {23, "maxTexture2D", 1},
    {24, "maxTexture3D", 0},
    {25, "maxTexture3D", 1},
    {26, "maxTexture3D", 2},
    {27, "maxTexture2DLayered", 0},
    {28, "maxTexture2DLayered", 1},
    {29, "maxTexture2DLayered", 2},
    {30, "surfaceAlignment", 0},
    {31, "concurrentKernels", 0},
    {32, "ECCEnabled", 0},
    {33, "pciBusID", 0},
    {34, "pciDeviceID", 0},
    {35, "tccDriver", 0},
    {36, "memClockRateKHz", 0},
    {37, "memoryBusWidth", 0},
    {38, "l2CacheSize", 0},
    {39, "maxThreadsPerMultiProcessor", 0},
    {40, "asyncEngineCount", 0},
    {41, "unifiedAddressing", 0},
    {42, "maxTexture1DLayered", 0},
    {43, "maxTexture1DLayered", 1},
    {45, "maxTexture2DGather", 0},
    {46, "maxTexture2DGather", 1},
    {47, "maxTexture3DAlt", 0},
    {48, "maxTexture3DAlt", 1},
    {49, "maxTexture3DAlt", 2},
    {50, "pciDomainID", 0},
    {51, "texturePitchAlignment", 0},
    {52, "maxTextureCubemap", 0},
    {53, "maxTextureCubemapLayered", 0},
    {54, "maxTextureCubemapLayered", 1},
    {55, "maxSurface1D", 0},
    {56, "maxSurface2D", 0},
    {57, "maxSurface2D", 1},
    {58, "maxSurface3D", 0},
    {59, "maxSurface3D", 1},
    {60, "maxSurface3D", 2},
    {61, "maxSurface1DLayered", 0},
    {62, "maxSurface1DLayered", 1},
    {63, "maxSurface2DLayered", 0},
    {64, "maxSurface2DLayered", 1},
    {65, "maxSurface2DLayered", 2},
    {66, "maxSurfaceCubemap", 0},
    {67, "maxSurfaceCubemapLayered", 0},
    {68, "maxSurfaceCubemapLayered", 1},
    {70, "maxTexture2DLinear", 0},
    {71, "maxTexture2DLinear", 1},
    {72, "maxTexture2DLinear", 2},
    {73, "maxTexture2DMipmap", 0},
    {74, "maxTexture2DMipmap", 1},
    {75, "major", 0},
    {76, "minor", 0},
    {77, "maxTexture1DMipmap", 0},
    {78, "streamPrioritiesSupported", 0},
    {79, "globalL1CacheSupported", 0},
    {80, "localL1CacheSupported", 0},
    {81, "sharedMemPerMultiprocessor", 0},
    {82, "regsPerMultiprocessor", 0},
    {83, "managedMemory", 0},
    {84, "isMultiGpuBoard", 0},
    {85, "multiGpuBoardGroupID", 0},
    {86, "hostNativeAtomicSupported", 0},
    {87, "singleToDoublePrecisionPerfRatio", 0},
    {88, "pageableMemoryAccess", 0},
    {89, "concurrentManagedAccess", 0},
    {90, "computePreemptionSupported", 0},
    {91, "canUseHostPointerForRegisteredMem", 0},
    {95, "cooperativeLaunch", 0},
    {97, "sharedMemPerBlockOptin", 0},
    {99, "hostRegisterSupported", 0},
    {100, "pageableMemoryAccessUsesHostPageTables", 0},
    {101, "directManagedMemAccessFromHost", 0},
    {106, "maxBlocksPerMultiProcessor", 0},
    {108, "persistingL2CacheMaxSize", 0},
    {109, "accessPolicyMaxWindowSize", 0},
    {111, "reservedSharedMemPerBlock", 0},
    {112, "sparseCudaArraySupported", 0},
    {113, "hostRegisterReadOnlySupported", 0},
    {114, "timelineSemaphoreInteropSupported", 0},
    {115, "memoryPoolsSupported", 0},
    {116, "gpuDirectRDMASupported", 0},
    {117, "gpuDirectRDMAFlushWritesOptions", 0},
    {118, "gpuDirectRDMAWritesOrdering", 0},
    {119, "memoryPoolSupportedHandleTypes", 0},
    {120, "clusterLaunch", 0},
    {121, "deferredMappingCudaArraySupported", 0},
    {125, "ipcEventSupported", 0},
    {130, "deviceNumaConfig", 0},
    {131, "deviceNumaId", 0},
    {133, "mpsEnabled", 0},
    {134, "hostNumaId", 0},
    {139, "gpuPciDeviceID", 0},
    {140, "gpuPciSubsystemID", 0},
    {143, "hostNumaMultinodeIpcSupported", 0},
};

// One past the last number of CUDA 13.0 (cudaDevAttrOnlyPartialHostNativeAtomicSupported).
constexpr int kAttributeEnd = 148;
constexpr int kPciBus = 33;
constexpr int kGpuOverlap = 15;
// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED and
// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: the driver's
// virtual memory is modelled for every device, sharing it is not.
constexpr int kVirtualMemory = 102;

}  // namespace

std::span<const AttributeField> AttributeFields() { return kAttributes; }

std::optional<int> DeviceAttribute(const DeviceSpec& spec, int device, int attribute) {
  if (attribute < 1 || attribute >= kAttributeEnd) return std::nullopt;
  if (attribute == kVirtualMemory) return 1;
  const auto* found =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [&](const AttributeField& a) { return a.number == attribute; });
  if (found == std::end(kAttributes)) return 0;  // features that no device file describes
  const auto value = static_cast<int>(spec.Get(found->field, found->index));
  if (attribute == kPciBus) return value + device;
  if (attribute == kGpuOverlap) return value > 0 ? 1 : 0;
  return value;
}

}  // namespace memmodel::vgpu
