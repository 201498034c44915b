// How callers find the driver's functions, and its error texts.
#include <dlfcn.h>

#include "src/vgpu/driver.h"
#include "src/vgpu/driver_entry.h"

VGPU_API CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                      CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static void* const self = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &info) == 0
               ? nullptr
               : dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  *function = self == nullptr ? nullptr : memmodel::vgpu::DriverEntry(self, symbol);
  if (status != nullptr) {
    *status = *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                   : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

VGPU_API CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
    case CUDA_SUCCESS:
      *text = "no error";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_INITIALIZED:
      *text = "initialization error";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NO_DEVICE:
      *text = "no CUDA-capable device is detected";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_DEVICE:
      *text = "invalid device ordinal";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_FOUND:
      *text = "named symbol not found";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_SUPPORTED:
      *text = "operation not supported";
      return CUDA_SUCCESS;
    default:
      *text = "unrecognized error code";
      return CUDA_SUCCESS;
  }
}
