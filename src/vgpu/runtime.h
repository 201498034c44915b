// What the files of the runtime (libcudart) share.
#ifndef MEMMODEL_SRC_VGPU_RUNTIME_H_
#define MEMMODEL_SRC_VGPU_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "src/vgpu/state.h"
#include "src/vgpu/streams.h"

// Functions of CUDA's public interface: C names, seen by the loader.
#define VGPU_API extern "C" MEMMODEL_VGPU_EXPORT

namespace memmodel::vgpu {

// Keeps a failure as the thread's last error, as the runtime does, and passes it on.
cudaError_t Note(cudaError_t error);
cudaError_t TakeLastError();
[[nodiscard]] cudaError_t LastError();

[[nodiscard]] inline bool ValidDevice(int device) {
  return device >= 0 && device < State::Get().device_count();
}
[[nodiscard]] inline std::uint64_t Address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
[[nodiscard]] inline cudaError_t FromOutcome(MemoryOutcome outcome) {
  switch (outcome) {
    case MemoryOutcome::kOk:
      return cudaSuccess;
    case MemoryOutcome::kOutOfMemory:
      return cudaErrorMemoryAllocation;
    case MemoryOutcome::kInvalid:
      break;
  }
  return cudaErrorInvalidValue;
}
// The nodes of `graph` as a launch sees them.
GraphExec* Instantiate(const Graph& graph);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_RUNTIME_H_
