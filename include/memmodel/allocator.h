// PyTorch's CUDA caching allocator without CUDA: given the same requests and
// the same segment addresses it answers with the same addresses, segments,
// statistics and out-of-memory errors. docs/allocator.md lists the rules.
//
// Mirrors torch 2.11, c10/cuda/CUDACachingAllocator.cpp, class
// DeviceCachingAllocator; the names are its own. One device, one thread.
#ifndef MEMMODEL_ALLOCATOR_H_
#define MEMMODEL_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/allocator_settings.h"
#include "memmodel/bytes.h"

namespace memmodel {

class ContextAddresses;
enum class ContextOccasion : std::uint8_t;  // memmodel/trace.h

// The driver below the allocator: cudaMalloc and cudaFree, and for expandable
// segments cuMemAddressReserve, cuMemMap and so on.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Address of `size` new bytes, or nothing if the device has not enough left.
  virtual std::optional<std::uint64_t> Malloc(Bytes size, int stream) = 0;
  virtual void Free(std::uint64_t address, Bytes size) = 0;

  // Addresses without memory; Map puts memory behind whole pages of them and
  // returns false, with nothing mapped, if the device has not enough left.
  virtual std::uint64_t Reserve(Bytes size, Bytes page, int stream) = 0;
  virtual bool Map(std::uint64_t address, Bytes size) = 0;
  virtual void Unmap(std::uint64_t address, Bytes size) = 0;
  virtual void Release(std::uint64_t address, Bytes size) = 0;

  [[nodiscard]] virtual Bytes free_bytes() const = 0;
};

// A device that gives out addresses as NVIDIA's driver was seen to do (H200,
// driver 580.159): in chunks of 32 MiB and multiples (src/core/address_chunks.cc),
// among what the driver holds for itself (src/core/context_addresses.cc). Told of the
// occasions when that grows, it gives the addresses of the virtual GPU. What else a
// process takes is not known here, so that ties between equal free blocks can still
// fall otherwise than on a GPU.
class DeviceMemory : public SegmentSource {
 public:
  // `capacity`: bytes that segments may take, that is, the device's memory less
  // what the context holds.
  explicit DeviceMemory(Bytes capacity = AllocatorSettings::kNoLimit);
  ~DeviceMemory() override;
  DeviceMemory(DeviceMemory&&) noexcept;

  std::optional<std::uint64_t> Malloc(Bytes size, int stream) override;
  void Free(std::uint64_t address, Bytes size) override;
  std::uint64_t Reserve(Bytes size, Bytes page, int stream) override;
  bool Map(std::uint64_t address, Bytes size) override;
  void Unmap(std::uint64_t address, Bytes size) override;
  void Release(std::uint64_t address, Bytes size) override;
  [[nodiscard]] Bytes free_bytes() const override { return capacity_ - used_; }

  // The driver takes addresses for itself; the capacity stays.
  void Happened(ContextOccasion occasion);

 private:
  Bytes capacity_;
  Bytes used_ = 0;
  std::unique_ptr<ContextAddresses> addresses_;
  std::uint64_t next_reserved_;
};

struct Statistic {
  Bytes current = 0;
  Bytes peak = 0;
  Bytes allocated = 0;  // sum of all increases
  Bytes freed = 0;      // sum of all decreases
};

struct PoolStatistic {
  Statistic all, small_pool, large_pool;
};

// As torch.cuda.memory_stats names and defines them.
struct AllocatorStatistics {
  PoolStatistic allocation, segment, active, inactive_split;  // counts
  PoolStatistic allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
      requested_bytes;
  Statistic oversize_allocations, oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
  Bytes max_split_size = -1;  // -1: every block may be split

  // ("active_bytes.all.peak", value), ..., sorted by name.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> Flatten() const;
};

enum class BlockState : std::uint8_t { kActiveAllocated, kActivePendingFree, kInactive };
std::string_view BlockStateName(BlockState state);  // "active_allocated", ...

struct BlockInfo {
  std::uint64_t address = 0;
  Bytes size = 0;
  Bytes requested_size = 0;  // as of its last use, also when it is inactive
  BlockState state = BlockState::kInactive;
};

struct SegmentInfo {
  std::uint64_t address = 0;
  Bytes total_size = 0;
  Bytes allocated_size = 0;
  Bytes active_size = 0;
  Bytes requested_size = 0;
  int stream = 0;
  bool is_small = false;
  bool is_expandable = false;  // then: one contiguous mapped range
  int pool = 0;                // 0: the default pools; else a PoolId
  std::vector<BlockInfo> blocks;
};

// A block in use. kNone: the request failed, or was for 0 bytes.
enum class BlockId : std::uint32_t { kNone = 0xffffffff };

// A private pool, as torch.cuda.MemPool and CUDA graphs use them.
enum class PoolId : std::int32_t { kDefault = 0 };

class AllocatorCore;

class Allocator {
 public:
  struct Options {
    AllocatorSettings settings;  // must be valid
    // Memory of the device: what fractions refer to, and how far an expandable
    // segment can grow (9/8 of it). Default: an H200's.
    Bytes total_bytes = 150109880320;
    // A cap on reserved bytes in place of the fraction in `settings`, as
    // torch.cuda.set_per_process_memory_fraction sets it. Default: none.
    std::optional<Bytes> limit_bytes;
  };

  // `source` must outlive the allocator. Nothing is returned to it at the end.
  Allocator(const Options& options, SegmentSource* source);
  ~Allocator();
  Allocator(Allocator&&) noexcept;
  Allocator& operator=(Allocator&&) noexcept;

  // Streams are numbered from 0; their order is the order in which cached
  // blocks of several streams are released.
  BlockId Malloc(Bytes size, int stream = 0);

  // With RecordStream before it, the block stays active ("pending free") until
  // CompleteFree tells that the other streams' work is done, or until the
  // allocator waits for them itself, before it returns all cached blocks (then
  // num_sync_all_streams grows, and the handle must not be used any more).
  void Free(BlockId block);
  void RecordStream(BlockId block, int stream);
  void CompleteFree(BlockId block);

  void EmptyCache();

  // Requests between Begin and End go to the pool. Its memory is returned only
  // after ReleasePool. At most one pool at a time.
  PoolId CreatePool();
  void BeginAllocateToPool(PoolId pool);
  void EndAllocateToPool();
  void ReleasePool(PoolId pool);

  [[nodiscard]] std::uint64_t Address(BlockId block) const;
  [[nodiscard]] Bytes Size(BlockId block) const;  // rounded, with an unsplit rest

  [[nodiscard]] AllocatorStatistics Statistics() const;
  [[nodiscard]] Bytes reserved_bytes() const;
  void ResetPeakStatistics();
  void ResetAccumulatedStatistics();

  // All segments by address, each tiled by its blocks.
  [[nodiscard]] std::vector<SegmentInfo> Snapshot() const;

  // An empty string, or the first internal inconsistency found. For tests.
  [[nodiscard]] std::string CheckInvariants() const;

 private:
  friend class AllocatorCore;
  std::unique_ptr<AllocatorCore> core_;
};

}  // namespace memmodel

#endif  // MEMMODEL_ALLOCATOR_H_
