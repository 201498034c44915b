// What the runtime says about a kernel: attributes and occupancy. Registers and
// static shared memory stand in the kernel's code, which is compressed; until
// that is read they count as kAssumedRegisters and 0 (docs/stand_ins.md).
#include <cstring>

#include "src/vgpu/kernels.h"
#include "src/vgpu/occupancy.h"
#include "src/vgpu/runtime.h"

namespace memmodel::vgpu {
namespace {

// The most that lets an SM of 64 Ki registers hold its 2048 threads.
constexpr int kAssumedRegisters = 32;

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return Note(cudaErrorInvalidValue);
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  const Kernel* kernel = FindKernel(function);
  if (kernel == nullptr) return Note(cudaErrorInvalidDeviceFunction);
  const DeviceSpec& spec = State::Get().spec();
  const auto image = ImageOf(*kernel->module);
  if (!image) return Note(cudaErrorInvalidDeviceFunction);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = static_cast<int>(spec.Get("maxThreadsPerBlock"));
  attributes->numRegs = kAssumedRegisters;
  attributes->ptxVersion = image->architecture;
  attributes->binaryVersion = image->ptx ? spec.ComputeCapability() : image->architecture;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(spec.Get("sharedMemPerBlock"));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                          int value) {
  if (FindKernel(function) == nullptr) return Note(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      (value < 0 || value > State::Get().spec().Get("sharedMemPerBlockOptin"))) {
    return Note(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return FindKernel(function) == nullptr ? Note(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_size, size_t shared, unsigned) {
  if (blocks == nullptr || block_size < 1) return Note(cudaErrorInvalidValue);
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  if (FindKernel(function) == nullptr) return Note(cudaErrorInvalidDeviceFunction);
  *blocks = BlocksPerSm(State::Get().spec(), {.threads = block_size,
                                              .registers = kAssumedRegisters,
                                              .shared_bytes = shared});
  return cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                   const void* function,
                                                                   int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared, cudaOccupancyDefault);
}
