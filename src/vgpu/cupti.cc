// libcupti: nothing can be traced on a virtual GPU; profilers hear that from
// every function but the two that say who answers and why not.
#include <cuda.h>

#include <cstdint>

#include "src/vgpu/export.h"

// From cupti_result.h and cupti_version.h of CUDA 13.0 and 12.8.
constexpr int kSuccess = 0;
constexpr int kInvalidParameter = 1;
constexpr std::uint32_t kVersion = CUDA_VERSION >= 13000 ? 130001 : 26;

extern "C" MEMMODEL_VGPU_EXPORT int cuptiGetVersion(std::uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  *version = kVersion;
  return kSuccess;
}

extern "C" MEMMODEL_VGPU_EXPORT int cuptiGetResultString(int result,
                                                                 const char** text) {
  if (text == nullptr) return kInvalidParameter;
  *text = result == kSuccess ? "CUPTI_SUCCESS"
                                  : "CUDA activity cannot be traced on memmodel's virtual GPU";
  return kSuccess;
}
