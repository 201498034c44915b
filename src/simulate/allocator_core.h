// The state and the steps of Allocator; see memmodel/allocator.h. Functions
// carry the names of torch's DeviceCachingAllocator, which they mirror.
#ifndef MEMMODEL_SRC_SIMULATE_ALLOCATOR_CORE_H_
#define MEMMODEL_SRC_SIMULATE_ALLOCATOR_CORE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/allocator.h"
#include "src/simulate/counter.h"
#include "src/simulate/free_blocks.h"

namespace memmodel {

// c10/core/AllocatorConfig.h of torch 2.11.
inline constexpr Bytes kMinBlockSize = 512;
inline constexpr Bytes kSmallSize = kMiB;          // the largest small request
inline constexpr Bytes kSmallBuffer = 2 * kMiB;    // segment of the small pool
inline constexpr Bytes kMinLargeAlloc = 10 * kMiB;
inline constexpr Bytes kRoundLarge = 2 * kMiB;
// Beyond any device; larger requests fail without a look at the driver.
inline constexpr Bytes kLargestRequest = Bytes{1} << 50;

inline constexpr Bytes RoundUp(Bytes size, Bytes unit) { return (size + unit - 1) / unit * unit; }

class AllocatorCore {
 public:
  AllocatorCore(const Allocator::Options& options, SegmentSource* source);

  BlockIndex Malloc(Bytes size, int stream);
  void Free(BlockIndex block);
  void RecordStream(BlockIndex block, int stream);
  void CompleteFree(BlockIndex block);
  void EmptyCache();
  PoolId CreatePool();
  void BeginAllocateToPool(PoolId pool);
  void EndAllocateToPool();
  void ReleasePool(PoolId pool);

  [[nodiscard]] const Block& At(BlockIndex block) const { return blocks_[block]; }
  [[nodiscard]] AllocatorStatistics Statistics() const;
  // How often it has waited for all streams.
  [[nodiscard]] std::int64_t synchronizations() const { return stats_.num_sync_all_streams; }
  [[nodiscard]] Bytes reserved_bytes() const { return total_allocated_memory_; }
  void ResetPeakStatistics();
  void ResetAccumulatedStatistics();
  [[nodiscard]] std::vector<SegmentInfo> Snapshot() const;
  [[nodiscard]] std::string CheckInvariants() const;

 private:
  struct Pool {
    bool is_small = false;
    PoolId owner = PoolId::kDefault;
    std::int64_t get_free_blocks_call_count = 0;
    std::vector<FreeBlocks> streams;
    std::vector<BlockIndex> unmapped;  // ordered by (stream, address)
  };
  struct PrivatePool {
    int use_count = 1;
    bool released = false;
  };
  struct ExpandableSegment {
    std::uint64_t address = 0;
    Bytes size = 0;
    Bytes page = 0;
    bool alive = false;
  };
  struct Request {
    Bytes size = 0;  // rounded
    Bytes alloc_size = 0;
    int stream = 0;
    std::uint16_t pool = 0;
  };

  // allocator.cc
  [[nodiscard]] Bytes AllocationSize(Bytes size) const;
  BlockIndex GetFreeBlock(const Request& request);
  BlockIndex FindExpandable(const FreeBlocks& free, BlockIndex first) const;
  BlockIndex AllocBlock(const Request& request, bool is_retry);
  BlockIndex AllocFoundBlock(const Request& request, BlockIndex block, Bytes requested_size);
  [[nodiscard]] bool ShouldSplit(const Block& block, Bytes size) const;
  void FreeBlock(BlockIndex block);
  Bytes TryMergeBlocks(BlockIndex dst, BlockIndex src);

  // release.cc
  void GarbageCollectCachedBlocks();
  bool ReleaseAvailableCachedBlocks(const Request& request);
  void ReleaseCachedBlocks();
  void ReleaseBlocks(std::uint16_t pool);
  void ReleaseBlock(BlockIndex block);
  void SynchronizeAndFreeEvents();

  // expandable.cc
  BlockIndex TryAllocateExpandableBlock(const Request& request);
  BlockIndex FindExpandableBlock(const Request& request);
  bool MapBlock(BlockIndex block, Bytes size);
  void UnmapBlock(BlockIndex block);
  void ReleaseExpandableSegment(BlockIndex block);
  void InsertUnmapped(BlockIndex block);
  void EraseUnmapped(BlockIndex block);

  [[nodiscard]] std::array<Counter*, 9> Counters() {
    return {&allocation_, &allocated_bytes_, &requested_bytes_, &inactive_split_,
            &inactive_split_bytes_, &segment_, &reserved_bytes_, &active_, &active_bytes_};
  }
  BlockIndex NewBlock();
  void DeleteBlock(BlockIndex block);
  FreeBlocks& FreeOf(const Block& block);
  void InsertIntoBlocks(BlockIndex block);
  void EraseFromBlocks(BlockIndex block) { FreeOf(blocks_[block]).Erase(block); }
  [[nodiscard]] std::vector<BlockIndex> CachedBlocks(const Pool& pool) const;
  [[nodiscard]] bool IsSplit(const Block& block) const {
    return block.prev != kNoBlock || block.next != kNoBlock;
  }

  // Oversize blocks have no pools.
  static void Increase(Statistic* stat, Bytes amount) {
    stat->current += amount;
    stat->peak = stat->current > stat->peak ? stat->current : stat->peak;
    stat->allocated += amount;
  }
  static void Decrease(Statistic* stat, Bytes amount) {
    stat->current -= amount;
    stat->freed += amount;
  }

  AllocatorSettings settings_;
  SegmentSource* source_;
  Bytes total_bytes_;
  std::optional<Bytes> allowed_memory_maximum_;
  bool collects_garbage_ = false;  // a limit and a threshold are set

  std::vector<Block> blocks_;
  std::vector<BlockIndex> unused_blocks_;
  std::vector<Pool> pools_;  // 0 small, 1 large, then two for each private pool
  std::vector<PrivatePool> private_pools_;  // [PoolId]; 0 unused
  PoolId current_pool_ = PoolId::kDefault;
  std::vector<ExpandableSegment> expandable_segments_;
  std::vector<BlockIndex> pending_;  // freed, waiting for other streams

  Bytes total_allocated_memory_ = 0;
  Counter allocation_, allocated_bytes_, requested_bytes_, inactive_split_, inactive_split_bytes_;
  Counter segment_, reserved_bytes_;
  // Active is allocated plus pending, so it needs counters of its own only once
  // a block was recorded on another stream.
  bool counts_active_ = false;
  Counter active_, active_bytes_;
  AllocatorStatistics stats_;  // all that is not in a Counter
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_SIMULATE_ALLOCATOR_CORE_H_
