// Expandable segments: a range of addresses for each stream and pool, 9/8 of the
// device's memory long, of which only pages that were needed are mapped (2 MiB
// in the small pool, large_segment_size in the large pool).
//
// A segment is tiled by blocks like any other; those without memory are
// "unmapped" and lie outside the cache. A request that no cached block serves
// maps pages at the lowest address where free and unmapped blocks together have
// room, beside the free block there so that both become one:
//
//   [ used 14 | free 6 | unmapped ... ]   a request of 25 MiB, pages of 20
//   [ used 14 | free 26 | unmapped ... ]  maps ceil((25-6)/20) = 1 page ...
//   [ used 14 | used 25 | free 1 | ... ]  ... and is then split as usual
#include <algorithm>

#include "src/simulate/allocator_core.h"

namespace memmodel {

void AllocatorCore::InsertUnmapped(BlockIndex index) {
  std::vector<BlockIndex>& unmapped = pools_[blocks_[index].pool].unmapped;
  const auto less = [this](BlockIndex a, BlockIndex b) {
    const Block& x = blocks_[a];
    const Block& y = blocks_[b];
    return x.stream != y.stream ? x.stream < y.stream : x.address < y.address;
  };
  unmapped.insert(std::lower_bound(unmapped.begin(), unmapped.end(), index, less), index);
}

void AllocatorCore::EraseUnmapped(BlockIndex index) {
  std::erase(pools_[blocks_[index].pool].unmapped, index);
}

// The lowest address with room for the request, free and unmapped together.
BlockIndex AllocatorCore::FindExpandableBlock(const Request& request) {
  const auto allocatable = [this](BlockIndex block) {
    return block != kNoBlock && !blocks_[block].allocated && !blocks_[block].pending;
  };
  const Pool& pool = pools_[request.pool];
  for (const BlockIndex unmapped : pool.unmapped) {
    if (blocks_[unmapped].stream != request.stream) continue;
    BlockIndex first = unmapped;
    if (allocatable(blocks_[first].prev)) first = blocks_[first].prev;
    Bytes room = 0;
    for (BlockIndex b = first; room < request.size && allocatable(b); b = blocks_[b].next) {
      room += blocks_[b].size;
    }
    if (room >= request.size) return first;
  }
  ExpandableSegment segment;
  segment.page = pool.is_small ? kSmallBuffer : settings_.large_segment_size;
  segment.size = RoundUp(total_bytes_ + total_bytes_ / 8, segment.page);
  segment.address = source_->Reserve(segment.size, segment.page, request.stream);
  segment.alive = true;
  expandable_segments_.push_back(segment);
  const BlockIndex index = NewBlock();
  Block& block = blocks_[index];
  block.address = segment.address;
  block.size = segment.size;
  block.stream = static_cast<std::int16_t>(request.stream);
  block.pool = request.pool;
  block.mapped = false;
  block.segment = static_cast<std::uint32_t>(expandable_segments_.size() - 1);
  InsertUnmapped(index);
  return index;
}

// Maps at least `size` bytes from the start of an unmapped block and joins them
// to free neighbours; the block is then in the cache.
bool AllocatorCore::MapBlock(BlockIndex index, Bytes size) {
  const Bytes page = expandable_segments_[blocks_[index].segment].page;
  const Bytes mapped = RoundUp(size, page);
  if (!source_->Map(blocks_[index].address, mapped)) return false;
  EraseUnmapped(index);
  if (mapped < blocks_[index].size) {
    const BlockIndex rest_index = NewBlock();
    Block& block = blocks_[index];
    Block& rest = blocks_[rest_index];
    rest.address = block.address + static_cast<std::uint64_t>(mapped);
    rest.size = block.size - mapped;
    rest.stream = block.stream;
    rest.pool = block.pool;
    rest.segment = block.segment;
    rest.mapped = false;
    rest.prev = index;
    rest.next = block.next;
    if (rest.next != kNoBlock) blocks_[rest.next].prev = rest_index;
    block.next = rest_index;
    block.size = mapped;
    InsertUnmapped(rest_index);
  }
  blocks_[index].mapped = true;
  TryMergeBlocks(index, blocks_[index].prev);
  TryMergeBlocks(index, blocks_[index].next);
  InsertIntoBlocks(index);
  total_allocated_memory_ += mapped;
  reserved_bytes_.Increase(pools_[blocks_[index].pool].is_small, mapped);
  ++stats_.num_device_alloc;
  return true;
}

// A cached block of at least the request's size, taken out of the cache. Pages
// that were mapped before a failure stay mapped.
BlockIndex AllocatorCore::TryAllocateExpandableBlock(const Request& request) {
  BlockIndex candidate = FindExpandableBlock(request);
  if (!blocks_[candidate].mapped &&
      !MapBlock(candidate, std::min(blocks_[candidate].size, request.size))) {
    return kNoBlock;
  }
  while (blocks_[candidate].size < request.size) {
    const BlockIndex next = blocks_[candidate].next;
    const Bytes missing = request.size - blocks_[candidate].size;
    if (!MapBlock(next, std::min(missing, blocks_[next].size))) return kNoBlock;
    candidate = next;
  }
  EraseFromBlocks(candidate);
  return candidate;
}

// Takes the memory from the whole pages inside a cached block; what is left
// before and after them stays in the cache. Afterwards `index` is the unmapped
// part, if there is one.
void AllocatorCore::UnmapBlock(BlockIndex index) {
  const ExpandableSegment segment = expandable_segments_[blocks_[index].segment];
  const Bytes from = static_cast<Bytes>(blocks_[index].address - segment.address);
  const Bytes begin = RoundUp(from, segment.page);
  const Bytes end = (from + blocks_[index].size) / segment.page * segment.page;
  if (begin >= end) return;
  const Bytes before_size = begin - from;
  const Bytes after_size = from + blocks_[index].size - end;
  const std::uint64_t address = segment.address + static_cast<std::uint64_t>(begin);
  source_->Unmap(address, end - begin);
  EraseFromBlocks(index);
  if (before_size > 0) {
    const BlockIndex part_index = NewBlock();
    Block& part = blocks_[part_index];
    Block& block = blocks_[index];
    part.address = block.address;
    part.size = before_size;
    part.stream = block.stream;
    part.pool = block.pool;
    part.segment = block.segment;
    part.prev = block.prev;
    part.next = index;
    if (part.prev != kNoBlock) blocks_[part.prev].next = part_index;
    block.prev = part_index;
    InsertIntoBlocks(part_index);
  }
  if (after_size > 0) {
    const BlockIndex part_index = NewBlock();
    Block& part = blocks_[part_index];
    Block& block = blocks_[index];
    part.address = segment.address + static_cast<std::uint64_t>(end);
    part.size = after_size;
    part.stream = block.stream;
    part.pool = block.pool;
    part.segment = block.segment;
    part.prev = index;
    part.next = block.next;
    if (part.next != kNoBlock) blocks_[part.next].prev = part_index;
    block.next = part_index;
    InsertIntoBlocks(part_index);
  }
  Block& block = blocks_[index];
  block.address = address;
  block.size = end - begin;
  block.mapped = false;
  TryMergeBlocks(index, block.prev);
  TryMergeBlocks(index, blocks_[index].next);
  InsertUnmapped(index);
  total_allocated_memory_ -= end - begin;
  reserved_bytes_.Decrease(pools_[blocks_[index].pool].is_small, end - begin);
  ++stats_.num_device_free;
}

void AllocatorCore::ReleaseExpandableSegment(BlockIndex block) {
  ExpandableSegment& segment = expandable_segments_[blocks_[block].segment];
  source_->Release(segment.address, segment.size);
  segment.alive = false;
  EraseUnmapped(block);
  DeleteBlock(block);
}

}  // namespace memmodel
