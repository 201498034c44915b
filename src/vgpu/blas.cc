// libcublas: handles are distinct and keep what is set on them, since PyTorch
// keeps a workspace for each handle and stream; the mathematics is accepted.
#include <cublas_v2.h>

#include <cstdint>

#include "src/vgpu/export.h"
#include "src/vgpu/state.h"

// Of CUDA 12.8; the headers are those of CUDA 13.
constexpr int kCublas12 = 120804;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count = 0;
};

extern "C" {
#pragma GCC visibility push(default)

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (!memmodel::vgpu::State::Get().CountCublasHandle()) return CUBLAS_STATUS_ALLOC_FAILED;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  handle->atomics = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  *mode = handle->atomics;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  handle->sm_count = count;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  *count = handle->sm_count;
  return CUBLAS_STATUS_SUCCESS;
}
// The caller's workspace is used in place of cuBLAS's own.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = MEMMODEL_CUDA_MAJOR >= 13 ? CUBLAS_VERSION : kCublas12;
  return CUBLAS_STATUS_SUCCESS;
}

// Copies between host and device, column by column.
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int element, const void* from,
                                    int from_step, void* to, int to_step, cudaStream_t) {
  if (rows < 0 || columns < 0 || element <= 0 || from_step <= 0 || to_step <= 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto size = static_cast<std::uint64_t>(element);
  for (int column = 0; column < columns; ++column) {
    const auto at = static_cast<std::uint64_t>(column);
    memmodel::vgpu::State::Get().Copy(
        reinterpret_cast<std::uint64_t>(to) + at * static_cast<std::uint64_t>(to_step) * size,
        reinterpret_cast<std::uint64_t>(from) + at * static_cast<std::uint64_t>(from_step) * size,
        static_cast<std::uint64_t>(rows) * size);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int element, const void* from,
                                    int from_step, void* to, int to_step, cudaStream_t stream) {
  return cublasSetMatrixAsync(rows, columns, element, from, from_step, to, to_step, stream);
}
cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* from, int from_step,
                               void* to, int to_step) {
  return cublasSetMatrixAsync(rows, columns, element, from, from_step, to, to_step, nullptr);
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* from, int from_step,
                               void* to, int to_step) {
  return cublasSetMatrixAsync(rows, columns, element, from, from_step, to, to_step, nullptr);
}
// A vector is a matrix of one row.
cublasStatus_t cublasSetVectorAsync(int count, int element, const void* from, int from_step,
                                    void* to, int to_step, cudaStream_t stream) {
  return cublasSetMatrixAsync(1, count, element, from, from_step, to, to_step, stream);
}
cublasStatus_t cublasGetVectorAsync(int count, int element, const void* from, int from_step,
                                    void* to, int to_step, cudaStream_t stream) {
  return cublasSetMatrixAsync(1, count, element, from, from_step, to, to_step, stream);
}
cublasStatus_t cublasSetVector(int count, int element, const void* from, int from_step, void* to,
                               int to_step) {
  return cublasSetMatrixAsync(1, count, element, from, from_step, to, to_step, nullptr);
}
cublasStatus_t cublasGetVector(int count, int element, const void* from, int from_step, void* to,
                               int to_step) {
  return cublasSetMatrixAsync(1, count, element, from, from_step, to, to_step, nullptr);
}

#pragma GCC visibility pop
}  // extern "C"
