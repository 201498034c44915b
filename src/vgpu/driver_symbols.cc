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

// Tables of functions that NVIDIA does not document: there are none here.
VGPU_API CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* Find(CUresult error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

}  // namespace

VGPU_API CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = Find(error);
  *text = found == nullptr ? "unrecognized error code" : found->text;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* found = Find(error);
  *name = found == nullptr ? "CUDA_ERROR_UNKNOWN" : found->name;
  return CUDA_SUCCESS;
}
