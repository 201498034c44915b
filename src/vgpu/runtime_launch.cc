// Kernels of the runtime: registration, launches, attributes, occupancy.
#include <cstring>

#include "src/vgpu/runtime.h"

namespace memmodel::vgpu {
namespace {

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<LaunchConfiguration> configurations;

// What a real launch checks before it starts (CUDA C++ Programming Guide,
// technical specifications per compute capability).
bool Launchable(const dim3& grid, const dim3& block, std::size_t shared) {
  const DeviceSpec& spec = State::Get().spec();
  const auto within = [&spec](unsigned value, const char* field, std::size_t index) {
    return value >= 1 && value <= spec.Get(field, index);
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return within(grid.x, "maxGridSize", 0) && within(grid.y, "maxGridSize", 1) &&
         within(grid.z, "maxGridSize", 2) && within(block.x, "maxThreadsDim", 0) &&
         within(block.y, "maxThreadsDim", 1) && within(block.z, "maxThreadsDim", 2) &&
         threads <= static_cast<std::uint64_t>(spec.Get("maxThreadsPerBlock")) &&
         shared <= static_cast<std::size_t>(spec.Get("sharedMemPerBlockOptin"));
}

cudaError_t Launch(const void*, const dim3& grid, const dim3& block, std::size_t shared,
                   cudaStream_t stream) {
  State& state = State::Get();
  if (state.device_count() == 0) return Note(cudaErrorNoDevice);
  if (!Launchable(grid, block, shared)) return Note(cudaErrorInvalidConfiguration);
  state.CountKernel();
  state.CountLaunch();
  Captured(FindStream(stream), GraphNode::kKernel);
  return cudaSuccess;
}

}  // namespace

int BinaryVersion() { return State::Get().spec().ComputeCapability(); }

}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API void** __cudaRegisterFatBinary(void* binary) {
  return new void*[2]{binary, nullptr};
}
VGPU_API void __cudaRegisterFatBinaryEnd(void**) {}
VGPU_API void __cudaUnregisterFatBinary(void** handle) { delete[] handle; }
VGPU_API char __cudaInitModule(void**) { return 1; }
VGPU_API void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                     dim3*, dim3*, int*) {}
VGPU_API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

VGPU_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                              CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

VGPU_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                void* stream) {
  if (configurations.empty()) return Note(cudaErrorMissingConfiguration);
  const LaunchConfiguration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

VGPU_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

VGPU_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                                        size_t shared, cudaStream_t stream) {
  return Launch(kernel, grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**,
                                      size_t shared, cudaStream_t stream) {
  return Launch(function, grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                 void**, size_t shared, cudaStream_t stream) {
  return Launch(function, grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                         void**) {
  if (config == nullptr) return Note(cudaErrorInvalidValue);
  return Launch(function, config->gridDim, config->blockDim, config->dynamicSmemBytes,
                config->stream);
}

VGPU_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  if (attributes == nullptr) return Note(cudaErrorInvalidValue);
  const DeviceSpec& spec = State::Get().spec();
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = static_cast<int>(spec.Get("maxThreadsPerBlock"));
  attributes->numRegs = 32;
  attributes->ptxVersion = BinaryVersion();
  attributes->binaryVersion = BinaryVersion();
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(spec.Get("sharedMemPerBlock"));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int block_size, size_t, unsigned) {
  const DeviceSpec& spec = State::Get().spec();
  if (blocks == nullptr || block_size < 1) return Note(cudaErrorInvalidValue);
  const auto warp = static_cast<int>(spec.Get("warpSize"));
  const int threads = (block_size + warp - 1) / warp * warp;
  *blocks = std::min(static_cast<int>(spec.Get("maxThreadsPerMultiProcessor")) / threads,
                     static_cast<int>(spec.Get("maxBlocksPerMultiProcessor")));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                   const void* function,
                                                                   int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                shared, cudaOccupancyDefault);
}

VGPU_API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  *pointer = const_cast<void*>(symbol);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t,
                                        cudaMemcpyKind) {
  return cudaSuccess;
}
