// The stand-ins through the C interface that programs see, opened as the child
// opens them. Expected values are those of CUDA's documentation. Compiled once with
// the headers of each CUDA version that there are stand-ins for.
#include <cuda.h>
#include <cuda_runtime_api.h>
#if CUDART_VERSION >= 13000
#include <cublas_v2.h>
#endif
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <library_types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kTotal = 1000 * kMiB;
constexpr std::size_t kContext = 100 * kMiB;

void* Library(const char* name) {
  static const bool configured = [] {
    setenv("MEMMODEL_VGPU_DEVICE", MEMMODEL_SOURCE_DIR "/data/devices/h200.json", 1);
    setenv("MEMMODEL_VGPU_COUNT", "2", 1);
    setenv("MEMMODEL_VGPU_TOTAL_BYTES", std::to_string(kTotal).c_str(), 1);
    setenv("MEMMODEL_VGPU_CONTEXT_BYTES", std::to_string(kContext).c_str(), 1);
    return true;
  }();
  static_cast<void>(configured);
  const std::string path = std::string(MEMMODEL_VGPU_DIR) + "/" + name;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  INFO(path, library == nullptr ? dlerror() : "");
  REQUIRE(library != nullptr);
  return library;
}

template <typename Function>
Function* Find(const char* library, const char* name) {
  void* found = dlsym(Library(library), name);
  INFO(name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

#define TEXT(name) #name
#define TEXT_OF(macro) TEXT(macro)  // a name that a header defines as another is that other one
#define RUNTIME(name) Find<decltype(name)>("libcudart.so." TEXT_OF(MEMMODEL_CUDA_MAJOR), TEXT_OF(name))
#define DRIVER(name) Find<decltype(name)>("libcuda.so.1", TEXT_OF(name))
#define BLAS(name) Find<decltype(name)>("libcublas.so.13", #name)

std::size_t Free() {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  CHECK(RUNTIME(cudaMemGetInfo)(&free_bytes, &total) == cudaSuccess);
  CHECK(total == kTotal);
  return free_bytes;
}

int UnknownReads() {
  auto* report = Find<const char*()>("libmemmodel_vgpu.so", "memmodel_vgpu_report_json");
  const std::string json = report();
  const std::string key = "\"unknown_reads\":";
  return std::atoi(json.c_str() + json.find(key) + key.size());
}

}  // namespace

TEST_CASE("cudaMalloc gives the card's memory to the last page and then fails") {
  CHECK(Free() == kTotal - kContext);
  void* a = nullptr;
  void* b = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&a, 898 * kMiB) == cudaSuccess);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
  CHECK(Free() == 2 * kMiB);
  CHECK(RUNTIME(cudaMalloc)(&b, 2 * kMiB + 1) == cudaErrorMemoryAllocation);
  CHECK(b == nullptr);
  CHECK(RUNTIME(cudaPeekAtLastError)() == cudaErrorMemoryAllocation);
  CHECK(RUNTIME(cudaGetLastError)() == cudaErrorMemoryAllocation);
  CHECK(RUNTIME(cudaGetLastError)() == cudaSuccess);
  CHECK(RUNTIME(cudaMalloc)(&b, 1) == cudaSuccess);  // a page of 2 MiB
  CHECK(Free() == 0);
  CHECK(RUNTIME(cudaFree)(a) == cudaSuccess);
  CHECK(RUNTIME(cudaFree)(a) == cudaErrorInvalidValue);
  CHECK(RUNTIME(cudaFree)(b) == cudaSuccess);
  CHECK(RUNTIME(cudaFree)(nullptr) == cudaSuccess);
  CHECK(Free() == kTotal - kContext);
  RUNTIME(cudaGetLastError)();
  CHECK(std::strcmp(RUNTIME(cudaGetErrorString)(cudaErrorMemoryAllocation), "out of memory") == 0);
  CHECK(std::strcmp(RUNTIME(cudaGetErrorName)(cudaErrorMemoryAllocation),
                    "cudaErrorMemoryAllocation") == 0);
}

TEST_CASE("devices, their properties and the current one") {
  int count = 0;
  CHECK(RUNTIME(cudaGetDeviceCount)(&count) == cudaSuccess);
  CHECK(count == 2);
  cudaDeviceProp p;
  CHECK(RUNTIME(cudaGetDeviceProperties)(&p, 1) == cudaSuccess);
  CHECK(std::string(p.name) == "NVIDIA H200");
  CHECK(p.totalGlobalMem == kTotal);
  CHECK(p.major == 9);
  CHECK(p.multiProcessorCount == 132);
  CHECK(p.maxThreadsDim[2] == 64);
  CHECK(p.sharedMemPerMultiprocessor == 228 * 1024);
  CHECK(p.memoryPoolsSupported == 1);
  CHECK(p.clusterLaunch == 1);
#if CUDART_VERSION < 13000
  CHECK(p.clockRate == 1980000);
  CHECK(p.singleToDoublePrecisionPerfRatio == 2);
#endif
  int value = 0;
  CHECK(RUNTIME(cudaDeviceGetAttribute)(&value, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  CHECK(value == 132);
  CHECK(RUNTIME(cudaDeviceGetAttribute)(&value, cudaDevAttrMaxBlockDimZ, 0) == cudaSuccess);
  CHECK(value == 64);
  CHECK(RUNTIME(cudaDeviceGetAttribute)(&value, static_cast<cudaDeviceAttr>(0), 0) ==
        cudaErrorInvalidValue);
  CHECK(RUNTIME(cudaSetDevice)(2) == cudaErrorInvalidDevice);
  CHECK(RUNTIME(cudaSetDevice)(1) == cudaSuccess);
  void* p1 = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&p1, kMiB) == cudaSuccess);
  CHECK(RUNTIME(cudaSetDevice)(0) == cudaSuccess);
  cudaPointerAttributes attributes;
  CHECK(RUNTIME(cudaPointerGetAttributes)(&attributes, static_cast<char*>(p1) + 100) ==
        cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 1);
  CHECK(RUNTIME(cudaPointerGetAttributes)(&attributes, &value) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(Free() == kTotal - kContext);  // of device 0
  CHECK(RUNTIME(cudaFree)(p1) == cudaSuccess);
  RUNTIME(cudaGetLastError)();
}

TEST_CASE("runtime and driver answer for the CUDA version that the program was built for") {
  int runtime = 0, driver = 0;
  CHECK(RUNTIME(cudaRuntimeGetVersion)(&runtime) == cudaSuccess);
  CHECK(RUNTIME(cudaDriverGetVersion)(&driver) == cudaSuccess);
  CHECK(runtime / 1000 == MEMMODEL_CUDA_MAJOR);
  CHECK(driver >= runtime);  // else cudaErrorInsufficientDriver
  CHECK(driver / 1000 == MEMMODEL_CUDA_MAJOR);
  CHECK(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  CHECK(DRIVER(cuDriverGetVersion)(&runtime) == CUDA_SUCCESS);
  CHECK(runtime == driver);
}

TEST_CASE("bytes that the host wrote come back, others are zero and counted") {
  void* device = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&device, kMiB) == cudaSuccess);
  const std::int64_t sent[2] = {42, -7};
  std::int64_t got[2] = {1, 1};
  const int before = UnknownReads();
  CHECK(RUNTIME(cudaMemcpy)(device, sent, sizeof sent, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(RUNTIME(cudaMemcpy)(got, device, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(got[0] == 42);
  CHECK(got[1] == -7);
  CHECK(UnknownReads() == before);
  // A row of two elements, 16 bytes apart, into rows 8 bytes apart.
  auto* matrix = static_cast<char*>(device) + 4096;
  CHECK(RUNTIME(cudaMemcpy2D)(matrix, 16, sent, 8, 8, 2, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(RUNTIME(cudaMemcpy2DAsync)(got, 8, matrix, 16, 8, 2, cudaMemcpyDeviceToHost, nullptr) ==
        cudaSuccess);
  CHECK(got[1] == -7);
  CHECK(RUNTIME(cudaMemset)(device, 0xff, 8) == cudaSuccess);
  CHECK(RUNTIME(cudaMemcpy)(got, device, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(got[0] == -1);
  CHECK(UnknownReads() == before);
  CHECK(RUNTIME(cudaMemcpy)(got, static_cast<char*>(device) + 8192, 8, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(got[0] == 0);
  CHECK(UnknownReads() == before + 1);
  // Freed and handed out again: nothing is known any more.
  CHECK(RUNTIME(cudaFree)(device) == cudaSuccess);
  void* again = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&again, kMiB) == cudaSuccess);
  CHECK(again == device);
  CHECK(RUNTIME(cudaMemcpy)(got, again, 8, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(UnknownReads() == before + 2);
  CHECK(RUNTIME(cudaFree)(again) == cudaSuccess);
}

TEST_CASE("a reader answers for unknown bytes, once") {
  using Reader = int(void*, std::uint64_t, std::uint64_t, void*);
  auto* install = Find<void(Reader*, void*)>("libmemmodel_vgpu.so", "memmodel_vgpu_on_unknown_read");
  void* device = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&device, kMiB) == cudaSuccess);
  int calls = 0;
  install(
      [](void* context, std::uint64_t, std::uint64_t size, void* to) {
        ++*static_cast<int*>(context);
        CHECK(size == 4);
        const int answer = 17;
        std::memcpy(to, &answer, sizeof answer);
        return 1;
      },
      &calls);
  int got = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK(RUNTIME(cudaMemcpy)(&got, device, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(got == 17);
  }
  CHECK(calls == 1);
  auto* forget = Find<void(std::uint64_t, std::uint64_t)>("libmemmodel_vgpu.so", "memmodel_vgpu_forget");
  forget(reinterpret_cast<std::uint64_t>(device), 4);
  CHECK(RUNTIME(cudaMemcpy)(&got, device, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(calls == 2);
  install(nullptr, nullptr);
  CHECK(RUNTIME(cudaFree)(device) == cudaSuccess);
}

TEST_CASE("a block that the program's allocator hands out anew is unknown, its neighbours are not") {
  auto* out = Find<std::uint64_t(std::uint64_t)>("libmemmodel_vgpu.so", "memmodel_vgpu_block_out");
  auto* back = Find<void(std::uint64_t)>("libmemmodel_vgpu.so", "memmodel_vgpu_block_back");
  void* device = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&device, kMiB) == cudaSuccess);
  const auto begin = reinterpret_cast<std::uint64_t>(device);
  const std::uint64_t before = out(begin);
  out(begin + 512);
  CHECK(out(begin + 1024) == before + 2);
  const auto at = [begin](std::uint64_t offset) { return reinterpret_cast<void*>(begin + offset); };
  const auto known = [&](std::uint64_t offset) {
    int got = 0;
    const int reads = UnknownReads();
    CHECK(RUNTIME(cudaMemcpy)(&got, at(offset), 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    return UnknownReads() == reads;
  };
  const int value = 7;
  for (const std::uint64_t offset : {0, 4, 512, 1020, 1024}) {
    CHECK(RUNTIME(cudaMemcpy)(at(offset), &value, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  back(begin + 512);
  CHECK(known(512));  // until another gets it
  back(begin);
  out(begin);  // now of 1024 bytes, over what was two blocks
  for (const std::uint64_t offset : {0, 4, 512, 1020}) CHECK(!known(offset));
  CHECK(known(1024));
  back(begin + 1024);
  back(begin);
  CHECK(RUNTIME(cudaFree)(device) == cudaSuccess);
}

TEST_CASE("pinned, registered and managed memory is the host's") {
  void* pinned = nullptr;
  CHECK(RUNTIME(cudaHostAlloc)(&pinned, 100, cudaHostAllocDefault) == cudaSuccess);
  std::memset(pinned, 1, 100);
  cudaPointerAttributes attributes;
  CHECK(RUNTIME(cudaPointerGetAttributes)(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(RUNTIME(cudaFreeHost)(pinned) == cudaSuccess);
  CHECK(RUNTIME(cudaFreeHost)(pinned) == cudaErrorInvalidValue);
  void* managed = nullptr;
  CHECK(RUNTIME(cudaMallocManaged)(&managed, 100, cudaMemAttachGlobal) == cudaSuccess);
  std::memset(managed, 1, 100);
  CHECK(RUNTIME(cudaPointerGetAttributes)(&attributes, managed) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeManaged);
  CHECK(RUNTIME(cudaFree)(managed) == cudaSuccess);
  static char own[8192];
  CHECK(RUNTIME(cudaHostRegister)(own, sizeof own, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(RUNTIME(cudaHostRegister)(own, sizeof own, cudaHostRegisterDefault) ==
        cudaErrorHostMemoryAlreadyRegistered);
  CHECK(RUNTIME(cudaHostUnregister)(own) == cudaSuccess);
  CHECK(RUNTIME(cudaHostUnregister)(own) == cudaErrorHostMemoryNotRegistered);
  RUNTIME(cudaGetLastError)();
}

TEST_CASE("a capture records what the stream is given and nothing happens") {
  cudaStream_t stream = nullptr;
  cudaStream_t side = nullptr;
  CHECK(RUNTIME(cudaStreamCreate)(&stream) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamCreate)(&side) == cudaSuccess);
  cudaEvent_t event = nullptr;
  CHECK(RUNTIME(cudaEventCreate)(&event) == cudaSuccess);
  void* device = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&device, kMiB) == cudaSuccess);
  int value = 5;
  CHECK(RUNTIME(cudaStreamBeginCapture)(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(RUNTIME(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamBeginCapture)(stream, cudaStreamCaptureModeGlobal) ==
        cudaErrorIllegalState);
  CHECK(RUNTIME(cudaMemcpyAsync)(device, &value, 4, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  CHECK(RUNTIME(cudaEventRecord)(event, stream) == cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t capturing = nullptr;
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
#if CUDART_VERSION >= 13000
  CHECK(RUNTIME(cudaStreamGetCaptureInfo)(stream, &status, &id, &capturing, &last, nullptr,
                                          &count) == cudaSuccess);
#else
  CHECK(RUNTIME(cudaStreamGetCaptureInfo)(stream, &status, &id, &capturing, &last, &count) ==
        cudaSuccess);
#endif
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(capturing != nullptr);
  CHECK(count == 1);  // the copy
  cudaGraphNodeType kind = cudaGraphNodeTypeEmpty;
  CHECK(RUNTIME(cudaGraphNodeGetType)(last[0], &kind) == cudaSuccess);
  CHECK(kind == cudaGraphNodeTypeMemcpy);
  CHECK(RUNTIME(cudaStreamIsCapturing)(side, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(RUNTIME(cudaStreamWaitEvent)(side, event, 0) == cudaSuccess);  // joins the capture
  CHECK(RUNTIME(cudaStreamIsCapturing)(side, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  CHECK(RUNTIME(cudaMemsetAsync)(device, 0, 4, side) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(RUNTIME(cudaStreamEndCapture)(side, &graph) == cudaErrorStreamCaptureUnmatched);
  CHECK(RUNTIME(cudaStreamEndCapture)(stream, &graph) == cudaSuccess);
  std::size_t nodes = 0;
  CHECK(RUNTIME(cudaGraphGetNodes)(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  cudaGraphExec_t exec = nullptr;
  CHECK(RUNTIME(cudaGraphInstantiate)(&exec, graph, 0) == cudaSuccess);
  CHECK(RUNTIME(cudaGraphDestroy)(graph) == cudaSuccess);
  CHECK(RUNTIME(cudaGraphLaunch)(exec, stream) == cudaSuccess);
  CHECK(RUNTIME(cudaGraphExecDestroy)(exec) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamIsCapturing)(side, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(RUNTIME(cudaFree)(device) == cudaSuccess);
  CHECK(RUNTIME(cudaEventDestroy)(event) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamDestroy)(side) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamDestroy)(stream) == cudaSuccess);
  RUNTIME(cudaGetLastError)();
}

TEST_CASE("a pool reserves, keeps what it may and gives the rest back") {
  cudaMemPool_t pool = nullptr;
  CHECK(RUNTIME(cudaDeviceGetDefaultMemPool)(&pool, 0) == cudaSuccess);
  void* a = nullptr;
  CHECK(RUNTIME(cudaMallocAsync)(&a, 100, nullptr) == cudaSuccess);
  cuuint64_t used = 0;
  CHECK(RUNTIME(cudaMemPoolGetAttribute)(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(used >= 100);
  CHECK(Free() < kTotal - kContext);
  CHECK(RUNTIME(cudaFreeAsync)(a, nullptr) == cudaSuccess);
  CHECK(RUNTIME(cudaStreamSynchronize)(nullptr) == cudaSuccess);  // the threshold is 0 at first
  CHECK(Free() == kTotal - kContext);
}

TEST_CASE("driver virtual memory, found as PyTorch finds it") {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(RUNTIME(cudaGetDriverEntryPointByVersion)("cuMemCreate", &entry, 12000, cudaEnableDefault,
                                                  &result) == cudaSuccess);
  CHECK(result == cudaDriverEntryPointSuccess);
  CHECK(entry == reinterpret_cast<void*>(DRIVER(cuMemCreate)));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  std::size_t granularity = 0;
  CHECK(DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties,
                                              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS);
  CHECK(granularity == 2 * kMiB);
  CUdeviceptr space = 0;
  CHECK(DRIVER(cuMemAddressReserve)(&space, 2000 * kMiB, 0, 0, 0) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  CHECK(DRIVER(cuMemCreate)(&handle, 902 * kMiB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(DRIVER(cuMemCreate)(&handle, 900 * kMiB, &properties, 0) == CUDA_SUCCESS);
  CHECK(DRIVER(cuMemMap)(space, 900 * kMiB, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(DRIVER(cuMemRelease)(handle) == CUDA_SUCCESS);
  CHECK(Free() == 0);
  CHECK(DRIVER(cuMemUnmap)(space, 900 * kMiB) == CUDA_SUCCESS);
  CHECK(Free() == kTotal - kContext);
  CHECK(DRIVER(cuMemAddressFree)(space, 2000 * kMiB) == CUDA_SUCCESS);
}

#if CUDART_VERSION >= 13000
TEST_CASE("cuBLAS handles are distinct and keep what is set on them") {
  cublasHandle_t a = nullptr;
  cublasHandle_t b = nullptr;
  CHECK(BLAS(cublasCreate_v2)(&a) == CUBLAS_STATUS_SUCCESS);
  CHECK(BLAS(cublasCreate_v2)(&b) == CUBLAS_STATUS_SUCCESS);
  CHECK(a != b);
  CHECK(BLAS(cublasSetMathMode)(a, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
  CHECK(BLAS(cublasGetMathMode)(a, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == CUBLAS_TF32_TENSOR_OP_MATH);
  CHECK(BLAS(cublasGetMathMode)(b, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == CUBLAS_DEFAULT_MATH);
  CHECK(BLAS(cublasDestroy_v2)(a) == CUBLAS_STATUS_SUCCESS);
  CHECK(BLAS(cublasDestroy_v2)(b) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("a watcher is told of the context's growth, also of what came before it") {
  auto* watch = Find<void(void (*)(void*, const char*), void*)>("libmemmodel_vgpu.so",
                                                                "memmodel_vgpu_on_context_growth");
  const auto note = [](void* told, const char* occasion) {
    *static_cast<std::string*>(told) += occasion;
  };
  cublasHandle_t before = nullptr;
  cublasHandle_t after = nullptr;
  CHECK(BLAS(cublasCreate_v2)(&before) == CUBLAS_STATUS_SUCCESS);
  std::string told;
  watch(note, &told);
  CHECK(told.ends_with("cublas_handle"));
  told.clear();
  CHECK(BLAS(cublasCreate_v2)(&after) == CUBLAS_STATUS_SUCCESS);
  CHECK(told == "cublas_handle");
  watch(nullptr, nullptr);
  CHECK(BLAS(cublasDestroy_v2)(before) == CUBLAS_STATUS_SUCCESS);
  CHECK(BLAS(cublasDestroy_v2)(after) == CUBLAS_STATUS_SUCCESS);
}
#endif

TEST_CASE("what is refused says so and is reported") {
  cudaIpcMemHandle_t handle;
  CHECK(RUNTIME(cudaIpcGetMemHandle)(&handle, nullptr) == cudaErrorNotSupported);
  auto* report = Find<const char*()>("libmemmodel_vgpu.so", "memmodel_vgpu_report_json");
  CHECK(std::string(report()).find("{\"function\":\"cudaIpcGetMemHandle\",\"count\":1}") !=
        std::string::npos);
}

TEST_CASE("a plan of cuFFT knows its work area, or cannot be made") {
  constexpr const char* kFft = MEMMODEL_CUDA_MAJOR == 13 ? "libcufft.so.12" : "libcufft.so.11";
  constexpr int kInvalidPlan = 1, kInvalidSize = 8, kNotSupported = 16;  // of cufft.h
  auto* create = Find<int(int*)>(kFft, "cufftCreate");
  auto* destroy = Find<int(int)>(kFft, "cufftDestroy");
  auto* allocate = Find<int(int, int)>(kFft, "cufftSetAutoAllocation");
  auto* size = Find<int(int, std::size_t*)>(kFft, "cufftGetSize");
  auto* make = Find<int(int, int, long long*, long long*, long long, long long, cudaDataType,
                        long long*, long long, long long, cudaDataType, long long, std::size_t*,
                        cudaDataType)>(kFft, "cufftXtMakePlanMany");
  int plan = 0;
  std::size_t bytes = 0;
  // A real signal into its spectrum, as torch describes the two.
  const auto spectrum = [&](long long n, long long stride, long long batch) {
    return make(plan, 1, &n, &n, stride, n * stride, CUDA_R_32F, &n, 1, n / 2 + 1, CUDA_C_32F,
                batch, &bytes, CUDA_C_32F);
  };
  CHECK(create(&plan) == 0);
  CHECK(spectrum(148, 1, 7) == kNotSupported);  // memory that cuFFT would take itself
  CHECK(allocate(plan, 0) == 0);
  CHECK(spectrum(148, 1, 7) == 0);
  CHECK(bytes == 4200);  // an NVIDIA H200's
  bytes = 0;
  CHECK(size(plan, &bytes) == 0);
  CHECK(bytes == 4200);
  CHECK(spectrum(148, 2, 7) == kNotSupported);
  CHECK(spectrum(15889, 1, 7) == kNotSupported);
  CHECK(spectrum(0, 1, 7) == kInvalidSize);
  // The spectrum in the place of a whole one, as torch.fft.fft of a real tensor asks for.
  long long n = 19;
  CHECK(make(plan, 1, &n, &n, 1, n, CUDA_R_32F, &n, 1, n, CUDA_C_32F, 7, &bytes, CUDA_C_32F) == 0);
  CHECK(bytes == 1632);
  // Frames a quarter of their length apart; others were not measured. Columns.
  const auto complex = [&](long long stride, long long distance) {
    return make(plan, 1, &n, &n, stride, distance, CUDA_C_32F, &n, 1, n, CUDA_C_32F, 64, &bytes,
                CUDA_C_32F);
  };
  n = 1813;
  CHECK(complex(1, 453) == 0);
  CHECK(bytes == 928256);
  CHECK(complex(1, 454) == kNotSupported);
  n = 145;
  CHECK(complex(64, 1) == 0);
  CHECK(bytes == 74240);
  CHECK(complex(65, 1) == kNotSupported);
  n = 148;
  CHECK(make(plan, 1, &n, nullptr, 1, 1, CUDA_C_32F, nullptr, 1, 1, CUDA_C_64F, 7, &bytes,
             CUDA_C_32F) == kNotSupported);
  auto* report = Find<const char*()>("libmemmodel_vgpu.so", "memmodel_vgpu_report_json");
  const auto approximate = [&] {
    const std::string json = report();
    return json.find("cufftXtMakePlanMany", json.find("\"approximate\"")) != std::string::npos;
  };
  CHECK(approximate() == (MEMMODEL_CUDA_MAJOR != 13));
  CHECK(spectrum(400, 1, 50000) == 0);
  CHECK(bytes == 0);
  CHECK(approximate() == (MEMMODEL_CUDA_MAJOR != 13));
  CHECK(spectrum(400, 1, 50001) == 0);
  CHECK(approximate());  // no batch as large was measured
  CHECK(std::string(report()).find("{\"function\":\"cufftXtMakePlanMany\",\"count\":6}") !=
        std::string::npos);
  CHECK(destroy(plan) == 0);
  CHECK(destroy(plan) == kInvalidPlan);
}

// Attributes as ptxas -v prints them for the same code (cubins/scale.ptx).
TEST_CASE("the driver knows the functions of a cubin, and forgets what they are given to write") {
  CHECK(DRIVER(cuInit)(0) == CUDA_SUCCESS);
  const std::string path = MEMMODEL_SOURCE_DIR "/tests/vgpu/cubins/scale_sm90.cubin";
  CUmodule module = nullptr;
  CHECK(DRIVER(cuModuleLoad)(&module, "/no/such/file") == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(DRIVER(cuModuleLoad)(&module, path.c_str()) == CUDA_SUCCESS);
  CUfunction scale = nullptr;
  CHECK(DRIVER(cuModuleGetFunction)(&scale, module, "other") == CUDA_ERROR_NOT_FOUND);
  CHECK(DRIVER(cuModuleGetFunction)(&scale, module, "scale") == CUDA_SUCCESS);
  const auto attribute = [scale](CUfunction_attribute which) {
    int value = -1;
    CHECK(DRIVER(cuFuncGetAttribute)(&value, which, scale) == CUDA_SUCCESS);
    return value;
  };
  CHECK(attribute(CU_FUNC_ATTRIBUTE_NUM_REGS) == 14);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) == 64);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 1024);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 128);  // .reqntid 128
  int blocks = 0;  // 2048 threads an SM
  CHECK(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, scale, 128, 0) ==
        CUDA_SUCCESS);
  CHECK(blocks == 16);

  void* pointers[3] = {};
  for (void*& pointer : pointers) {
    CHECK(RUNTIME(cudaMalloc)(&pointer, 512) == cudaSuccess);
    const std::int64_t sent = 42;
    CHECK(RUNTIME(cudaMemcpy)(pointer, &sent, sizeof sent, cudaMemcpyHostToDevice) == cudaSuccess);
  }
  const auto known = [](void* pointer) {
    const int before = UnknownReads();
    std::int64_t got = 0;
    CHECK(RUNTIME(cudaMemcpy)(&got, pointer, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
    return UnknownReads() == before;
  };
  float factor = 2;
  unsigned count = 2;
  void* parameters[] = {&pointers[0], &pointers[1], &factor, &count};
  CHECK(DRIVER(cuLaunchKernel)(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr) ==
        CUDA_SUCCESS);
  CHECK_FALSE(known(pointers[0]));
  CHECK_FALSE(known(pointers[1]));
  CHECK(known(pointers[2]));
  // The same from a buffer: x, y, s, n at 0, 8, 16, 20.
  char buffer[24] = {};
  std::memcpy(buffer, &pointers[2], sizeof(void*));
  std::size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CHECK(DRIVER(cuLaunchKernel)(scale, 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_SUCCESS);
  CHECK_FALSE(known(pointers[2]));
  for (void* pointer : pointers) CHECK(RUNTIME(cudaFree)(pointer) == cudaSuccess);
}

TEST_CASE("a child of fork has the virtual GPU as it was") {
  void* device = nullptr;
  CHECK(RUNTIME(cudaMalloc)(&device, 100 * kMiB) == cudaSuccess);
  const std::size_t before = Free();
  auto* allocate = RUNTIME(cudaMalloc);
  auto* information = RUNTIME(cudaMemGetInfo);
  const pid_t child = fork();
  if (child == 0) {
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    void* more = nullptr;
    const bool good = information(&free_bytes, &total) == cudaSuccess && free_bytes == before &&
                      allocate(&more, kMiB) == cudaSuccess;
    _exit(good ? 0 : 1);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(Free() == before);
  CHECK(RUNTIME(cudaFree)(device) == cudaSuccess);
}
