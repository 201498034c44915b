// A memory pool of cudaMallocAsync: chunks of device memory that allocations
// are cut from.
//
// NVIDIA documents what a pool promises (CUDA Runtime API, stream ordered memory
// allocator), not how it cuts. Here a chunk is the request rounded up to 32 MiB,
// the step in which cudaMemPoolAttrReservedMemCurrent is seen to grow, and a
// request takes the lowest gap that holds it, in units of 512 bytes.
#ifndef MEMMODEL_SRC_VGPU_MEMORY_POOL_H_
#define MEMMODEL_SRC_VGPU_MEMORY_POOL_H_

#include <cstdint>
#include <map>

#include "src/vgpu/device_memory.h"

namespace memmodel::vgpu {

// Not thread-safe.
class MEMMODEL_VGPU_EXPORT MemoryPool {
 public:
  explicit MemoryPool(int device) : device_(device) {}

  // `memory` is the same in all calls.
  MemoryOutcome Allocate(DeviceMemory* memory, std::uint64_t bytes, std::uint64_t* address);
  // kInvalid if the pool did not give `address` out.
  MemoryOutcome Free(std::uint64_t address);
  // Gives empty chunks back to the device until at most `keep` bytes are reserved.
  void TrimTo(DeviceMemory* memory, std::uint64_t keep);

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  [[nodiscard]] std::uint64_t reserved_high() const { return reserved_high_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t used_high() const { return used_high_; }
  void ResetReservedHigh() { reserved_high_ = reserved_; }
  void ResetUsedHigh() { used_high_ = used_; }

  // What the pool may keep over a synchronisation.
  std::uint64_t release_threshold = 0;

 private:
  struct Chunk {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;
    Gaps gaps;
  };

  int device_ = 0;
  std::map<std::uint64_t, Chunk> chunks_;           // by address
  std::map<std::uint64_t, std::uint64_t> blocks_;   // address -> bytes
  std::uint64_t reserved_ = 0;
  std::uint64_t reserved_high_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t used_high_ = 0;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_MEMORY_POOL_H_
