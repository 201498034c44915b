// Code of the driver: modules, libraries, functions, launches. Nothing runs. Of a cubin
// (cubin.h: what Triton and nvrtc for a real architecture make) the functions are known;
// any other image loads too, and has any function that is asked for (run-time compiled
// kernels come as nvrtc.cc's empty PTX).
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "src/vgpu/address_space.h"
#include "src/vgpu/calls.h"
#include "src/vgpu/cubin.h"
#include "src/vgpu/driver.h"
#include "src/vgpu/occupancy.h"
#include "src/vgpu/streams.h"

namespace memmodel::vgpu {
namespace {

// See runtime_function.cc.
constexpr int kAssumedRegisters = 32;
// Programs that time a kernel (triton.testing.do_bench) repeat it until about 100 ms have
// passed: a thousand times with this.
constexpr std::int64_t kKernelNanoseconds = 100'000;
// cuModuleLoadData is not told how long the image is.
constexpr std::uint64_t kLongestImage = std::uint64_t{1} << 32;

// Never freed: its functions outlive it.
struct LoadedModule {
  std::optional<Cubin> cubin;
  bool counted = false;  // guarded by State::Lock()
};

std::unordered_map<const void*, LoadedModule>& Modules() {  // guarded by State::Lock()
  static auto* modules = new std::unordered_map<const void*, LoadedModule>;
  return *modules;
}
// Null: nothing is known of that function. Guarded by State::Lock().
std::unordered_map<const void*, const KernelCode*>& Functions() {
  static auto* functions = new std::unordered_map<const void*, const KernelCode*>;
  return *functions;
}

template <typename Handle>
CUresult NewHandle(Handle* handle, const char* function) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = static_cast<Handle>(memmodel_vgpu_new_handle(function));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult Load(Handle* handle, const void* image, std::uint64_t most, const char* function) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult made = NewHandle(handle, function); made != CUDA_SUCCESS) return made;
  std::optional<Cubin> cubin = ReadCubin(image, most);
  const auto lock = State::Get().Lock();
  Modules()[*handle].cubin = std::move(cubin);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult GetFunction(Handle* handle, const void* module, const char* name, const char* function) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelCode* code = nullptr;
  std::optional<std::uint64_t> loaded;
  {
    const auto lock = State::Get().Lock();
    const auto found = Modules().find(module);
    if (found != Modules().end() && found->second.cubin) {
      LoadedModule& from = found->second;
      code = from.cubin->Find(name);
      if (code == nullptr) return CUDA_ERROR_NOT_FOUND;
      if (!from.counted) loaded = from.cubin->bytes;
      from.counted = true;
    }
  }
  if (loaded) State::Get().CountModule(*loaded);
  if (const CUresult made = NewHandle(handle, function); made != CUDA_SUCCESS) return made;
  const auto lock = State::Get().Lock();
  Functions()[*handle] = code;
  return CUDA_SUCCESS;
}

const KernelCode* CodeOf(const void* function) {
  const auto lock = State::Get().Lock();
  const auto found = Functions().find(function);
  return found == Functions().end() ? nullptr : found->second;
}

// The buffer of all parameters in cuLaunchKernel's `extra`, null if there is none.
const char* ParameterBuffer(void** extra) {
  for (; extra != nullptr && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) return static_cast<const char*>(extra[1]);
  }
  return nullptr;
}

// A kernel may write wherever it is pointed to.
void ForgetWhatItIsGiven(const KernelCode& code, void** parameters, void** extra) {
  const char* buffer = ParameterBuffer(extra);
  for (const KernelParameter& parameter : code.parameters) {
    std::uint64_t address = 0;
    if (parameter.bytes != sizeof address) continue;
    const void* from = buffer != nullptr       ? buffer + parameter.offset
                       : parameters != nullptr ? parameters[parameter.ordinal]
                                               : nullptr;
    if (from == nullptr) continue;
    std::memcpy(&address, from, sizeof address);
    if (OnDevice(address)) State::Get().ForgetWith(address);
  }
}

CUresult Launch(CUfunction function, CUstream stream, void** parameters, void** extra) {
  State& state = State::Get();
  if (state.device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  Stream* on = FindStream(stream);
  if (!state.CountKernel(on->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const KernelCode* code = CodeOf(function)) ForgetWhatItIsGiven(*code, parameters, extra);
  PassTime(kKernelNanoseconds);
  Captured(on, GraphNode::kKernel);
  return CUDA_SUCCESS;
}

int BlocksOf(const KernelCode* code, int threads, std::uint64_t dynamic_shared) {
  return BlocksPerSm(State::Get().spec(),
                     {.threads = threads,
                      .registers = code == nullptr ? kAssumedRegisters : code->registers,
                      .shared_bytes = dynamic_shared + (code == nullptr ? 0 : code->shared_bytes)});
}

// The most threads that launch bounds and registers leave a block.
int MostThreads(const KernelCode* code) {
  const DeviceSpec& spec = State::Get().spec();
  auto threads = static_cast<int>(spec.Get("maxThreadsPerBlock"));
  if (code == nullptr) return threads;
  const auto warp = static_cast<int>(spec.Get("warpSize"));
  while (threads > warp && BlocksOf(code, threads, 0) == 0) threads -= warp;
  return code->threads > 0 ? std::min(threads, code->threads) : threads;
}

CUresult FunctionAttribute(int* value, CUfunction_attribute attribute, const KernelCode* code) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const DeviceSpec& spec = State::Get().spec();
  *value = 0;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = MostThreads(code);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = spec.ComputeCapability();
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = code == nullptr ? kAssumedRegisters : code->registers;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      if (code != nullptr) *value = code->local_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      if (code != nullptr) *value = static_cast<int>(code->shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(spec.Get("sharedMemPerBlock"));
      break;
    default:
      break;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return Load(module, image.data(), image.size(), "cuModuleLoad");
}
VGPU_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Load(module, image, kLongestImage, "cuModuleLoadData");
}
VGPU_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*,
                                     void**) {
  return cuModuleLoadData(module, image);
}
VGPU_API CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}
VGPU_API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
VGPU_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return GetFunction(function, module, name, "cuModuleGetFunction");
}

VGPU_API CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                    unsigned, CUlibraryOption*, void**, unsigned) {
  return Load(library, code, kLongestImage, "cuLibraryLoadData");
}
VGPU_API CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
VGPU_API CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(library);  // a library is one module
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return GetFunction(kernel, library, name, "cuLibraryGetKernel");
}
VGPU_API CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = reinterpret_cast<CUfunction>(kernel);  // a kernel is launched as a function is
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                                       CUdevice) {
  return FunctionAttribute(value, attribute, CodeOf(kernel));
}
VGPU_API CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { return CUDA_SUCCESS; }
VGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                     CUfunction function) {
  return FunctionAttribute(value, attribute, CodeOf(function));
}
VGPU_API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
VGPU_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

VGPU_API CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, unsigned, CUstream stream, void** parameters,
                                 void** extra) {
  return Launch(function, stream, parameters, extra);
}
VGPU_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                   void** parameters, void** extra) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : Launch(function, config->hStream, parameters, extra);
}
VGPU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned, unsigned, unsigned,
                                            unsigned, unsigned, unsigned, unsigned, CUstream stream,
                                            void** parameters) {
  return Launch(function, stream, parameters, nullptr);
}

VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                       CUfunction function,
                                                                       int block_size,
                                                                       size_t shared, unsigned) {
  if (blocks == nullptr || block_size < 1) return CUDA_ERROR_INVALID_VALUE;
  *blocks = BlocksOf(CodeOf(function), block_size, shared);
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
