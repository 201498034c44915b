// What the files of the driver (libcuda) share.
#ifndef MEMMODEL_SRC_VGPU_DRIVER_H_
#define MEMMODEL_SRC_VGPU_DRIVER_H_

#include <cuda.h>

#include "src/vgpu/state.h"

#define VGPU_API extern "C" MEMMODEL_VGPU_EXPORT

namespace memmodel::vgpu {

[[nodiscard]] inline bool ValidDevice(int device) {
  return device >= 0 && device < State::Get().device_count();
}
[[nodiscard]] inline CUresult FromOutcome(MemoryOutcome outcome) {
  switch (outcome) {
    case MemoryOutcome::kOk:
      return CUDA_SUCCESS;
    case MemoryOutcome::kOutOfMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case MemoryOutcome::kInvalid:
      break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_DRIVER_H_
