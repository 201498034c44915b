// Statistics under the names of torch.cuda.memory_stats, the snapshot, and the
// consistency check of the tests.
#include <algorithm>

#include "src/simulate/allocator_core.h"

namespace memmodel {
namespace {

using NamedPool = std::pair<const char*, PoolStatistic AllocatorStatistics::*>;
constexpr NamedPool kPoolStatistics[] = {
    {"active", &AllocatorStatistics::active},
    {"active_bytes", &AllocatorStatistics::active_bytes},
    {"allocated_bytes", &AllocatorStatistics::allocated_bytes},
    {"allocation", &AllocatorStatistics::allocation},
    {"inactive_split", &AllocatorStatistics::inactive_split},
    {"inactive_split_bytes", &AllocatorStatistics::inactive_split_bytes},
    {"requested_bytes", &AllocatorStatistics::requested_bytes},
    {"reserved_bytes", &AllocatorStatistics::reserved_bytes},
    {"segment", &AllocatorStatistics::segment},
};

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> AllocatorStatistics::Flatten() const {
  std::vector<std::pair<std::string, std::int64_t>> flat;
  const auto add = [&flat](const std::string& name, const Statistic& stat) {
    flat.emplace_back(name + ".allocated", stat.allocated);
    flat.emplace_back(name + ".current", stat.current);
    flat.emplace_back(name + ".freed", stat.freed);
    flat.emplace_back(name + ".peak", stat.peak);
  };
  for (const auto& [text, member] : kPoolStatistics) {
    const std::string name = text;
    const PoolStatistic& pool = this->*member;
    add(name + ".all", pool.all);
    add(name + ".large_pool", pool.large_pool);
    add(name + ".small_pool", pool.small_pool);
  }
  add("oversize_allocations", oversize_allocations);
  add("oversize_segments", oversize_segments);
  flat.emplace_back("max_split_size", max_split_size);
  flat.emplace_back("num_alloc_retries", num_alloc_retries);
  flat.emplace_back("num_device_alloc", num_device_alloc);
  flat.emplace_back("num_device_free", num_device_free);
  flat.emplace_back("num_ooms", num_ooms);
  flat.emplace_back("num_sync_all_streams", num_sync_all_streams);
  std::sort(flat.begin(), flat.end());
  return flat;
}

AllocatorStatistics AllocatorCore::Statistics() const {
  AllocatorStatistics s = stats_;
  s.allocation = allocation_.Get();
  s.allocated_bytes = allocated_bytes_.Get();
  s.requested_bytes = requested_bytes_.Get();
  s.inactive_split = inactive_split_.Get();
  s.inactive_split_bytes = inactive_split_bytes_.Get();
  s.segment = segment_.Get();
  s.reserved_bytes = reserved_bytes_.Get();
  s.active = counts_active_ ? active_.Get() : s.allocation;
  s.active_bytes = counts_active_ ? active_bytes_.Get() : s.allocated_bytes;
  return s;
}

void AllocatorCore::ResetPeakStatistics() {
  for (Counter* counter : Counters()) counter->ResetPeak();
  for (Statistic* stat : {&stats_.oversize_allocations, &stats_.oversize_segments}) {
    stat->peak = stat->current;
  }
}

void AllocatorCore::ResetAccumulatedStatistics() {
  for (Counter* counter : Counters()) counter->ResetAccumulated();
  for (Statistic* stat : {&stats_.oversize_allocations, &stats_.oversize_segments}) {
    stat->allocated = stat->freed = 0;
  }
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

std::string_view BlockStateName(BlockState state) {
  switch (state) {
    case BlockState::kActiveAllocated: return "active_allocated";
    case BlockState::kActivePendingFree: return "active_pending_free";
    case BlockState::kInactive: break;
  }
  return "inactive";
}

std::vector<SegmentInfo> AllocatorCore::Snapshot() const {
  std::vector<SegmentInfo> segments;
  for (BlockIndex head = 0; head < blocks_.size(); ++head) {
    const Block& first = blocks_[head];
    if (!first.alive || !first.mapped) continue;
    if (first.prev != kNoBlock && blocks_[first.prev].mapped) continue;
    SegmentInfo& segment = segments.emplace_back();
    segment.address = first.address;
    segment.stream = first.stream;
    segment.is_small = pools_[first.pool].is_small;
    segment.is_expandable = first.segment != kNoBlock;
    segment.pool = static_cast<int>(pools_[first.pool].owner);
    for (BlockIndex b = head; b != kNoBlock && blocks_[b].mapped; b = blocks_[b].next) {
      const Block& block = blocks_[b];
      BlockInfo& info = segment.blocks.emplace_back();
      info.address = block.address;
      info.size = block.size;
      info.requested_size = block.requested_size;
      info.state = block.allocated ? BlockState::kActiveAllocated
                   : block.pending ? BlockState::kActivePendingFree
                                   : BlockState::kInactive;
      segment.total_size += block.size;
      if (block.allocated) segment.allocated_size += block.size;
      if (block.allocated || block.pending) {
        segment.active_size += block.size;
        segment.requested_size += block.requested_size;
      }
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.address < b.address; });
  return segments;
}

std::string AllocatorCore::CheckInvariants() const {
  // Segments do not overlap, and their blocks tile them.
  std::uint64_t end = 0;
  Bytes reserved[2] = {0, 0};
  Bytes allocated = 0;
  Bytes active = 0;
  Bytes requested = 0;
  Bytes inactive_split = 0;
  std::int64_t allocations = 0;
  for (const SegmentInfo& segment : Snapshot()) {
    if (segment.address < end) return "two segments overlap at " + std::to_string(end);
    std::uint64_t at = segment.address;
    bool inactive_before = false;
    for (const BlockInfo& block : segment.blocks) {
      if (block.address != at) return "a hole or overlap at " + std::to_string(at);
      if (block.size <= 0 || block.size % kMinBlockSize != 0) return "a block of odd size";
      const bool inactive = block.state == BlockState::kInactive;
      if (inactive && inactive_before) return "two free neighbours at " + std::to_string(at);
      inactive_before = inactive;
      if (inactive && !segment.is_expandable && segment.blocks.size() > 1) {
        inactive_split += block.size;
      }
      allocations += block.state == BlockState::kActiveAllocated ? 1 : 0;
      at += static_cast<std::uint64_t>(block.size);
    }
    end = at;
    reserved[segment.is_small ? 1 : 0] += segment.total_size;
    allocated += segment.allocated_size;
    active += segment.active_size;
    requested += segment.requested_size;
  }
  const AllocatorStatistics s = Statistics();
  if (reserved[0] + reserved[1] != s.reserved_bytes.all.current) return "reserved_bytes differs";
  if (reserved[1] != s.reserved_bytes.small_pool.current) return "small pool's reserved differs";
  if (total_allocated_memory_ != s.reserved_bytes.all.current) return "total differs";
  if (allocated != s.allocated_bytes.all.current) return "allocated_bytes differs";
  if (allocations != s.allocation.all.current) return "allocation count differs";
  if (active != s.active_bytes.all.current) return "active_bytes differs";
  if (requested != s.requested_bytes.all.current) return "requested_bytes differs";
  if (inactive_split != s.inactive_split_bytes.all.current) return "inactive_split_bytes differs";

  // The cache holds the inactive blocks, in order, and nothing else.
  std::size_t cached = 0;
  for (std::uint16_t p = 0; p < pools_.size(); ++p) {
    for (int stream = 0; stream < static_cast<int>(pools_[p].streams.size()); ++stream) {
      const FreeBlocks& free = pools_[p].streams[static_cast<std::size_t>(stream)];
      BlockIndex before = kNoBlock;
      for (BlockIndex b = free.First(); b != kNoBlock; before = b, b = free.Next(b)) {
        const Block& block = blocks_[b];
        if (!block.alive || block.allocated || block.pending || !block.mapped) {
          return "the cache holds a block that is in use";
        }
        if (block.pool != p || block.stream != stream) return "a block in another's cache";
        if (before != kNoBlock &&
            std::pair(blocks_[before].size, blocks_[before].address) >=
                std::pair(block.size, block.address)) {
          return "the cache is out of order";
        }
        ++cached;
      }
    }
    for (const BlockIndex b : pools_[p].unmapped) {
      if (!blocks_[b].alive || blocks_[b].mapped || blocks_[b].pool != p) {
        return "the unmapped list holds a mapped block";
      }
    }
  }
  std::size_t inactive = 0;
  for (const Block& block : blocks_) {
    inactive += block.alive && block.mapped && !block.allocated && !block.pending ? 1 : 0;
  }
  return inactive == cached ? "" : "a free block is not in the cache";
}

}  // namespace memmodel
