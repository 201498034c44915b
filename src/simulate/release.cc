// How cached memory goes back to the driver.
//
//   garbage collection   large pool, unsplit segments that were not used for
//                        longer than the average
//   oversize blocks      with max_split_size, when a segment could not be had
//   everything           before a retry, and for empty_cache: large pool, then
//                        small pool, by (stream, size, address); then the
//                        private pools that nobody uses, small pool first
#include <algorithm>

#include "src/simulate/allocator_core.h"

namespace memmodel {

// The cached blocks of all streams in torch's order.
std::vector<BlockIndex> AllocatorCore::CachedBlocks(const Pool& pool) const {
  std::vector<BlockIndex> blocks;
  for (const FreeBlocks& free : pool.streams) {
    for (BlockIndex b = free.First(); b != kNoBlock; b = free.Next(b)) blocks.push_back(b);
  }
  return blocks;
}

void AllocatorCore::GarbageCollectCachedBlocks() {
  const auto threshold = static_cast<Bytes>(settings_.garbage_collection_threshold *
                                            static_cast<double>(*allowed_memory_maximum_));
  if (total_allocated_memory_ <= threshold) return;
  const Bytes target = total_allocated_memory_ - threshold;
  Bytes reclaimed = 0;
  const Pool& pool = pools_[1];
  const auto age = [&](BlockIndex block) {
    return pool.get_free_blocks_call_count - blocks_[block].gc_count_base;
  };
  std::vector<BlockIndex> freeable;
  std::int64_t total_age = 0;
  for (const BlockIndex block : CachedBlocks(pool)) {
    if (IsSplit(blocks_[block])) continue;
    freeable.push_back(block);
    total_age += age(block);
  }
  // An unsplit block of an expandable segment counts, but is never freed here.
  auto count = static_cast<std::int64_t>(freeable.size());
  bool freed = true;
  while (reclaimed < target && freed && count > 0) {
    const double age_threshold = static_cast<double>(total_age) / static_cast<double>(count);
    freed = false;
    std::vector<BlockIndex> kept;
    for (const BlockIndex block : freeable) {
      if (blocks_[block].segment != kNoBlock || static_cast<double>(age(block)) < age_threshold) {
        kept.push_back(block);
        continue;
      }
      freed = true;
      reclaimed += blocks_[block].size;
      total_age -= age(block);
      --count;
      ReleaseBlock(block);
    }
    freeable = std::move(kept);
  }
}

bool AllocatorCore::ReleaseAvailableCachedBlocks(const Request& request) {
  if (settings_.max_split_size == AllocatorSettings::kNoLimit) return false;
  const Bytes key = std::max(request.size, settings_.max_split_size);
  const Pool& pool = pools_[request.pool];
  const FreeBlocks& free = pool.streams[static_cast<std::size_t>(request.stream)];
  if (const BlockIndex found = free.LowerBound(key);
      found != kNoBlock && blocks_[found].segment == kNoBlock) {
    ReleaseBlock(found);
    return true;
  }
  // No single block is large enough: several oversize ones, the largest first.
  std::vector<BlockIndex> smaller;
  for (BlockIndex b = free.LowerBound(std::min(settings_.max_split_size, key));
       b != kNoBlock && blocks_[b].size < key; b = free.Next(b)) {
    smaller.push_back(b);
  }
  Bytes released = 0;
  for (auto it = smaller.rbegin(); it != smaller.rend() && released < key; ++it) {
    if (blocks_[*it].segment != kNoBlock) continue;
    released += blocks_[*it].size;
    ReleaseBlock(*it);
  }
  return released >= key;
}

// torch waits for all streams here, so that nothing is pending any more.
void AllocatorCore::SynchronizeAndFreeEvents() {
  ++stats_.num_sync_all_streams;
  const std::vector<BlockIndex> pending = std::move(pending_);
  pending_.clear();
  for (const BlockIndex block : pending) {
    blocks_[block].pending = false;
    FreeBlock(block);
  }
}

void AllocatorCore::ReleaseCachedBlocks() {
  if (current_pool_ == PoolId::kDefault) {
    SynchronizeAndFreeEvents();
    ReleaseBlocks(1);
    ReleaseBlocks(0);
  }
  for (std::size_t i = 1; i < private_pools_.size(); ++i) {
    if (!private_pools_[i].released) continue;
    ReleaseBlocks(static_cast<std::uint16_t>(2 * i));
    ReleaseBlocks(static_cast<std::uint16_t>(2 * i + 1));
  }
}

void AllocatorCore::ReleaseBlocks(std::uint16_t pool) {
  std::vector<BlockIndex> to_unmap;
  for (const BlockIndex block : CachedBlocks(pools_[pool])) {
    if (blocks_[block].segment != kNoBlock) {
      to_unmap.push_back(block);
    } else if (!IsSplit(blocks_[block])) {
      ReleaseBlock(block);
    }
  }
  for (const BlockIndex block : to_unmap) {
    UnmapBlock(block);
    if (!IsSplit(blocks_[block]) && !blocks_[block].mapped) ReleaseExpandableSegment(block);
  }
}

void AllocatorCore::ReleaseBlock(BlockIndex index) {
  const Block& block = blocks_[index];
  const bool small = pools_[block.pool].is_small;
  ++stats_.num_device_free;
  source_->Free(block.address, block.size);
  total_allocated_memory_ -= block.size;
  segment_.Decrease(small, 1);
  reserved_bytes_.Decrease(small, block.size);
  if (block.size >= settings_.max_split_size) Decrease(&stats_.oversize_segments, 1);
  EraseFromBlocks(index);
  DeleteBlock(index);
}

void AllocatorCore::EmptyCache() { ReleaseCachedBlocks(); }

PoolId AllocatorCore::CreatePool() {
  private_pools_.emplace_back();
  const auto id = static_cast<PoolId>(private_pools_.size() - 1);
  for (const bool small : {true, false}) {
    Pool& pool = pools_.emplace_back();
    pool.is_small = small;
    pool.owner = id;
  }
  return id;
}

void AllocatorCore::BeginAllocateToPool(PoolId pool) { current_pool_ = pool; }
void AllocatorCore::EndAllocateToPool() { current_pool_ = PoolId::kDefault; }
void AllocatorCore::ReleasePool(PoolId pool) {
  private_pools_[static_cast<std::size_t>(pool)].released = true;
}

}  // namespace memmodel
