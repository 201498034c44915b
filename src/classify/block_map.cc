// How block sizes follow from addresses. A request is served from the low end of
// a free block, so the free range that starts at its address *is* the block that
// the allocator found. DeviceCachingAllocator::should_split (torch 2.11,
// c10/cuda/CUDACachingAllocator.cpp) then says whether the rest goes back.
//
// Example: a 20 MiB segment serves a request of 19.5 MiB. The rest of 0.5 MiB is
// not above 1 MiB, so it stays in the block, and memory_allocated grows by 20 MiB.
#include "src/classify/block_map.h"

#include <algorithm>

namespace memmodel {
namespace {

// c10/core/AllocatorConfig.h of torch 2.11.
constexpr Bytes kMinBlockSize = 512;
constexpr Bytes kSmallSize = kMiB;
constexpr Bytes kSmallBuffer = 2 * kMiB;  // segments of the small pool, and no others

}  // namespace

BlockMap::Segments::iterator BlockMap::SegmentAt(std::uint64_t address) {
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return segments_.end();
  --it;
  return address < it->first + static_cast<std::uint64_t>(it->second.size) ? it : segments_.end();
}

void BlockMap::AddFree(Segments::iterator segment, std::uint64_t address, Bytes size) {
  const std::uint64_t start = segment->first;
  const std::uint64_t end = start + static_cast<std::uint64_t>(segment->second.size);
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first < end &&
      next->first == address + static_cast<std::uint64_t>(size)) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first >= start &&
        before->first + static_cast<std::uint64_t>(before->second) == address) {
      before->second += size;
      return;
    }
  }
  free_.emplace_hint(next, address, size);
}

bool BlockMap::AddSegment(std::uint64_t address, Bytes size) {
  if (size <= 0 || SegmentAt(address) != segments_.end()) return false;
  const auto segment = segments_.emplace(address, Segment{size, size == kSmallBuffer, false}).first;
  reserved_ += size;
  AddFree(segment, address, size);
  return true;
}

bool BlockMap::RemoveSegment(std::uint64_t address, Bytes size) {
  const auto segment = segments_.find(address);
  const auto range = free_.find(address);
  if (segment == segments_.end() || segment->second.size != size || range == free_.end() ||
      range->second != size) {
    return false;
  }
  free_.erase(range);
  segments_.erase(segment);
  reserved_ -= size;
  return true;
}

bool BlockMap::Map(std::uint64_t address, Bytes size) {
  if (size <= 0 || SegmentAt(address) != segments_.end()) return false;
  auto segment = segments_.emplace(address, Segment{size, false, true}).first;
  const auto next = std::next(segment);
  if (next != segments_.end() && next->second.expandable &&
      next->first == address + static_cast<std::uint64_t>(size)) {
    segment->second.size += next->second.size;
    segments_.erase(next);
  }
  if (segment != segments_.begin()) {
    const auto before = std::prev(segment);
    if (before->second.expandable &&
        before->first + static_cast<std::uint64_t>(before->second.size) == segment->first) {
      before->second.size += segment->second.size;
      segments_.erase(segment);
      segment = before;
    }
  }
  reserved_ += size;
  AddFree(segment, address, size);
  return true;
}

bool BlockMap::Unmap(std::uint64_t address, Bytes size) {
  const auto segment = SegmentAt(address);
  auto range = free_.upper_bound(address);
  if (segment == segments_.end() || range == free_.begin() || size <= 0) return false;
  --range;
  const std::uint64_t end = address + static_cast<std::uint64_t>(size);
  const std::uint64_t range_end = range->first + static_cast<std::uint64_t>(range->second);
  if (range_end < end) return false;
  // The free range and the mapped one each keep what lies before and after.
  const auto cut = [&](std::uint64_t start, std::uint64_t old_end, auto keep) {
    if (start < address) keep(start, static_cast<Bytes>(address - start));
    if (end < old_end) keep(end, static_cast<Bytes>(old_end - end));
  };
  const std::uint64_t range_start = range->first;
  free_.erase(range);
  cut(range_start, range_end, [&](std::uint64_t a, Bytes n) { free_.emplace(a, n); });
  const std::uint64_t start = segment->first;
  const Segment old = segment->second;
  segments_.erase(segment);
  cut(start, start + static_cast<std::uint64_t>(old.size), [&](std::uint64_t a, Bytes n) {
    segments_.emplace(a, Segment{n, old.small, old.expandable});
  });
  reserved_ -= size;
  return true;
}

std::optional<Bytes> BlockMap::Take(std::uint64_t address, Bytes size) {
  const auto range = free_.find(address);
  const auto segment = SegmentAt(address);
  const Bytes rounded = RoundRequest(settings_, size);
  if (range == free_.end() || segment == segments_.end() || range->second < rounded) {
    return std::nullopt;
  }
  const Bytes rest = range->second - rounded;
  const bool split = segment->second.small || settings_.expandable_segments
                         ? rest >= kMinBlockSize
                         : rounded < settings_.max_split_size && rest > kSmallSize;
  const Bytes block = split ? rounded : range->second;
  const auto hint = free_.erase(range);
  if (split) free_.emplace_hint(hint, address + static_cast<std::uint64_t>(block), rest);
  return block;
}

bool BlockMap::Release(std::uint64_t address, Bytes block_size) {
  const auto segment = SegmentAt(address);
  if (segment == segments_.end()) return false;
  AddFree(segment, address, block_size);
  return true;
}

}  // namespace memmodel
