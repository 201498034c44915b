// libcufft: plans are kept, but how much work area one needs only cuFFT knows,
// so no plan can be made.
#include <atomic>

#include "src/vgpu/export.h"

// cufftResult and cufftHandle, of cufft.h, which few build machines have.
constexpr int kSuccess = 0;
constexpr int kInvalidValue = 4;

extern "C" MEMMODEL_VGPU_EXPORT int cufftCreate(int* plan) {
  static std::atomic<int> next = 1;
  if (plan == nullptr) return kInvalidValue;
  *plan = next.fetch_add(1);  // an int, unlike the handles of other libraries
  return kSuccess;
}
