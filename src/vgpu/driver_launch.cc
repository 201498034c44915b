// Code of the driver: modules, libraries, functions, launches. Any image loads,
// since nothing runs (run-time compiled kernels come as nvrtc.cc's empty PTX).
#include "src/vgpu/calls.h"
#include "src/vgpu/driver.h"
#include "src/vgpu/occupancy.h"
#include "src/vgpu/streams.h"

namespace memmodel::vgpu {
namespace {

// See runtime_function.cc.
constexpr int kAssumedRegisters = 32;

template <typename Handle>
CUresult NewHandle(Handle* handle, const char* function) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<Handle>(memmodel_vgpu_new_handle(function));
  return CUDA_SUCCESS;
}

CUresult Launch(CUstream stream) {
  State& state = State::Get();
  if (state.device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  Stream* on = FindStream(stream);
  if (!state.CountKernel(on->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  Captured(on, GraphNode::kKernel);
  return CUDA_SUCCESS;
}

CUresult FunctionAttribute(int* value, CUfunction_attribute attribute) {
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
      *value = kAssumedRegisters;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(spec.Get("sharedMemPerBlock"));
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return path == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(module, "cuModuleLoad");
}
VGPU_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return image == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(module, "cuModuleLoadData");
}
VGPU_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*,
                                     void**) {
  return cuModuleLoadData(module, image);
}
VGPU_API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}
VGPU_API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
VGPU_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(function, "cuModuleGetFunction");
}

VGPU_API CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                    unsigned, CUlibraryOption*, void**, unsigned) {
  return code == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(library, "cuLibraryLoadData");
}
VGPU_API CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
VGPU_API CUresult cuLibraryGetModule(CUmodule* module, CUlibrary) {
  return NewHandle(module, "cuLibraryGetModule");
}
VGPU_API CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : NewHandle(kernel, "cuLibraryGetKernel");
}
VGPU_API CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = reinterpret_cast<CUfunction>(kernel);  // a kernel is launched as a function is
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel,
                                       CUdevice) {
  return FunctionAttribute(value, attribute);
}
VGPU_API CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { return CUDA_SUCCESS; }
VGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  return FunctionAttribute(value, attribute);
}
VGPU_API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

VGPU_API CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream stream, void**, void**) {
  return Launch(stream);
}
VGPU_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void**, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE : Launch(config->hStream);
}
VGPU_API CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, unsigned, unsigned, CUstream stream, void**) {
  return Launch(stream);
}

VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction,
                                                                       int block_size,
                                                                       size_t shared, unsigned) {
  if (blocks == nullptr || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
  *blocks = BlocksPerSm(State::Get().spec(), {.threads = block_size,
                                              .registers = kAssumedRegisters,
                                              .shared_bytes = shared});
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                              int block_size, size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared,
                                                              CU_OCCUPANCY_DEFAULT);
}

// The descriptor's content matters to kernels alone.
VGPU_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                         void* address, const cuuint64_t*, const cuuint64_t*,
                                         const cuuint32_t*, const cuuint32_t*,
                                         CUtensorMapInterleave, CUtensorMapSwizzle,
                                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (map == nullptr || address == nullptr || rank < 1 || rank > 5) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *map = {};
  return CUDA_SUCCESS;
}

// Linking: the result is as empty as what goes in.
VGPU_API CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* state) {
  return NewHandle(state, "cuLinkCreate_v2");
}
VGPU_API CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void* data, size_t, const char*,
                                   unsigned, CUjit_option*, void**) {
  return data == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
VGPU_API CUresult cuLinkComplete(CUlinkState, void** code, size_t* size) {
  static char nothing[] = "";
  if (code == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *code = nothing;
  *size = sizeof nothing;
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuLinkDestroy(CUlinkState) { return CUDA_SUCCESS; }
