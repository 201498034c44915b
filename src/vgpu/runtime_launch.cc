// Kernels of the runtime: registration, launches, variables.
#include <cstring>
#include <vector>

#include "src/vgpu/kernels.h"
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

cudaError_t Launch(Kernel* kernel, const dim3& grid, const dim3& block, std::size_t shared,
                   cudaStream_t stream) {
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  if (kernel == nullptr) return Note(cudaErrorInvalidDeviceFunction);
  if (!Launchable(grid, block, shared)) return Note(cudaErrorInvalidConfiguration);
  Stream* on = FindStream(stream);
  if (!CountLaunchOf(kernel, on->device)) return Note(cudaErrorMemoryAllocation);
  Captured(on, GraphNode::kKernel);
  return cudaSuccess;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(RegisterModule(wrapper));
}
VGPU_API void __cudaRegisterFatBinaryEnd(void**) {}
VGPU_API void __cudaUnregisterFatBinary(void**) {}
VGPU_API char __cudaInitModule(void**) { return 1; }
VGPU_API void __cudaRegisterFunction(void** module, const char* function, char*, const char*, int,
                                     uint3*, uint3*, dim3*, dim3*, int*) {
  RegisterKernel(reinterpret_cast<Module*>(module), function);
}
VGPU_API void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int,
                                int) {
  RegisterVariable(host, bytes);
}

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
  if (kernel == nullptr) return Note(cudaErrorInvalidValue);
  Kernel* found = FindKernel(function);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return found == nullptr ? Note(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

VGPU_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                                        size_t shared, cudaStream_t stream) {
  return Launch(reinterpret_cast<Kernel*>(kernel), grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**,
                                      size_t shared, cudaStream_t stream) {
  return Launch(FindKernel(function), grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                 void**, size_t shared, cudaStream_t stream) {
  return Launch(FindKernel(function), grid, block, shared, stream);
}

VGPU_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                         void**) {
  if (config == nullptr) return Note(cudaErrorInvalidValue);
  return Launch(FindKernel(function), config->gridDim, config->blockDim, config->dynamicSmemBytes,
                config->stream);
}

VGPU_API cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  const std::uint64_t address = VariableAddress(symbol);
  if (pointer == nullptr) return Note(cudaErrorInvalidValue);
  if (address == 0) return Note(cudaErrorInvalidSymbol);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                        size_t offset, cudaMemcpyKind) {
  const std::uint64_t address = VariableAddress(symbol);
  if (address == 0) return Note(cudaErrorInvalidSymbol);
  State::Get().Copy(address + offset, Address(from), bytes);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes,
                                          size_t offset, cudaMemcpyKind) {
  const std::uint64_t address = VariableAddress(symbol);
  if (address == 0) return Note(cudaErrorInvalidSymbol);
  State::Get().Copy(Address(to), address + offset, bytes);
  return cudaSuccess;
}
