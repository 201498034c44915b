// Modules, functions and launches of the driver (run-time compiled kernels).
#include "src/vgpu/driver.h"
#include "src/vgpu/streams.h"

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream stream, void**, void**) {
  State::Get().CountKernel();
  State::Get().CountLaunch();
  Captured(FindStream(stream), GraphNode::kKernel);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy,
                                            unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                            unsigned shared, CUstream stream, void** parameters) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
}

VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction,
                                                              int block_size, size_t) {
  if (blocks == nullptr || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
  const DeviceSpec& spec = State::Get().spec();
  *blocks = static_cast<int>(spec.Get("maxThreadsPerMultiProcessor")) / block_size;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceSpec& spec = State::Get().spec();
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(spec.Get("maxThreadsPerBlock"));
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = spec.ComputeCapability();
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(spec.Get("sharedMemPerBlock"));
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
