// Requests and releases. The path of a request, as torch's malloc() has it:
//
//   1. round: 512 bytes, or a division of the power of two
//   2. the smallest cached block of the stream that is large enough; of equal
//      ones the lowest address
//   3. with a limit and a garbage collection threshold: return old segments
//   4. a new segment (or new pages of an expandable one)
//   5. return oversize blocks (only with max_split_size), and 4 again
//   6. return all unsplit cached blocks, and 4 again: "a retry"
//   7. out of memory. The cache is not searched again after 5 and 6.
//   8. split off what is not needed, if it is more than 1 MiB (small pool and
//      expandable segments: 512 bytes). The low part is handed out.
//
// Example: 3 MiB in a fresh large pool takes a segment of 20 MiB and splits it
// 3 + 17. A second request of 16.5 MiB takes the block of 17 MiB whole, since
// 0.5 MiB is not worth a split: allocated_bytes grows by 17 MiB.
#include <algorithm>
#include <bit>

#include "src/simulate/allocator_core.h"

namespace memmodel {

AllocatorCore::AllocatorCore(const Allocator::Options& options, SegmentSource* source)
    : settings_(options.settings),
      source_(source),
      total_bytes_(std::clamp<Bytes>(options.total_bytes, 0, kLargestRequest)) {
  if (options.limit_bytes) {
    allowed_memory_maximum_ = options.limit_bytes;
  } else if (settings_.per_process_memory_fraction < 1.0) {
    allowed_memory_maximum_ = static_cast<Bytes>(settings_.per_process_memory_fraction *
                                                 static_cast<double>(total_bytes_));
  }
  collects_garbage_ =
      allowed_memory_maximum_.has_value() && settings_.garbage_collection_threshold > 0;
  stats_.max_split_size =
      settings_.max_split_size == AllocatorSettings::kNoLimit ? -1 : settings_.max_split_size;
  pools_.resize(2);
  pools_[0].is_small = true;
  private_pools_.resize(1);
}

Bytes RoundRequest(const AllocatorSettings& settings, Bytes size) {
  if (size < kMinBlockSize) return kMinBlockSize;
  const int log2 = std::bit_width(static_cast<std::uint64_t>(size)) - 1;
  const auto entry = static_cast<std::size_t>(std::clamp(log2 - 20, 0, 15));
  const Bytes divisions = settings.roundup_power2_divisions[entry];
  if (divisions > 1 && size > kMinBlockSize * divisions) {
    // `size` is above 512 * divisions, so the step is at least 512.
    return RoundUp(size, (Bytes{1} << log2) / divisions);
  }
  return RoundUp(size, kMinBlockSize);
}

Bytes AllocatorCore::AllocationSize(Bytes size) const {
  if (size <= kSmallSize) return kSmallBuffer;
  if (size < kMinLargeAlloc) return settings_.large_segment_size;
  return RoundUp(size, kRoundLarge);
}

BlockIndex AllocatorCore::NewBlock() {
  if (!unused_blocks_.empty()) {
    const BlockIndex index = unused_blocks_.back();
    unused_blocks_.pop_back();
    blocks_[index] = Block{};
    blocks_[index].alive = true;
    return index;
  }
  blocks_.emplace_back().alive = true;
  return static_cast<BlockIndex>(blocks_.size() - 1);
}

void AllocatorCore::DeleteBlock(BlockIndex block) {
  blocks_[block].alive = false;
  unused_blocks_.push_back(block);
}

FreeBlocks& AllocatorCore::FreeOf(const Block& block) {
  return pools_[block.pool].streams[static_cast<std::size_t>(block.stream)];
}

void AllocatorCore::InsertIntoBlocks(BlockIndex index) {
  Block& block = blocks_[index];
  block.gc_count_base = pools_[block.pool].get_free_blocks_call_count;
  FreeOf(block).Insert(index);
}

BlockIndex AllocatorCore::Malloc(Bytes requested_size, int stream) {
  if (requested_size <= 0) return kNoBlock;
  if (requested_size > kLargestRequest) {
    ++stats_.num_ooms;
    return kNoBlock;
  }
  Request request;
  request.size = RoundRequest(settings_, requested_size);
  request.stream = stream;
  request.pool = static_cast<std::uint16_t>((request.size <= kSmallSize ? 0 : 1) +
                                            2 * static_cast<int>(current_pool_));
  std::vector<FreeBlocks>& streams = pools_[request.pool].streams;
  while (streams.size() <= static_cast<std::size_t>(stream)) streams.emplace_back(&blocks_);

  BlockIndex block = GetFreeBlock(request);
  if (block == kNoBlock) [[unlikely]] {
    request.alloc_size = AllocationSize(request.size);
    if (collects_garbage_) GarbageCollectCachedBlocks();
    block = AllocBlock(request, false);
    if (block == kNoBlock && ReleaseAvailableCachedBlocks(request)) {
      block = AllocBlock(request, false);
    }
    if (block == kNoBlock && current_pool_ == PoolId::kDefault) {
      ReleaseCachedBlocks();
      block = AllocBlock(request, true);
    }
    if (block == kNoBlock) {
      ++stats_.num_ooms;
      return kNoBlock;
    }
  }
  return AllocFoundBlock(request, block, requested_size);
}

BlockIndex AllocatorCore::GetFreeBlock(const Request& request) {
  Pool& pool = pools_[request.pool];
  if (collects_garbage_) ++pool.get_free_blocks_call_count;
  FreeBlocks& free = pool.streams[static_cast<std::size_t>(request.stream)];
  BlockIndex found = free.LowerBound(request.size);
  if (found == kNoBlock) return kNoBlock;
  if (blocks_[found].segment != kNoBlock) found = FindExpandable(free, found);
  const Bytes size = blocks_[found].size;
  // An oversize block serves oversize requests alone, and not much smaller ones.
  if (request.size < settings_.max_split_size) {
    if (size >= settings_.max_split_size) return kNoBlock;
  } else if (size - request.size >= settings_.max_non_split_rounding) {
    return kNoBlock;
  }
  free.Erase(found);
  return found;
}

// Best fit counts a block that can grow with the size to which it can grow.
BlockIndex AllocatorCore::FindExpandable(const FreeBlocks& free, BlockIndex first) const {
  const auto expandable_size = [this](BlockIndex index) {
    const Block& block = blocks_[index];
    const bool grows = block.next != kNoBlock && !blocks_[block.next].mapped;
    return block.size + (grows ? blocks_[block.next].size : 0);
  };
  for (BlockIndex next = free.Next(first);
       next != kNoBlock && expandable_size(next) < expandable_size(first);
       next = free.Next(next)) {
    first = next;
  }
  return first;
}

BlockIndex AllocatorCore::AllocBlock(const Request& request, bool is_retry) {
  if (is_retry) ++stats_.num_alloc_retries;
  const Bytes size = request.alloc_size;
  if (allowed_memory_maximum_ && total_allocated_memory_ + size > *allowed_memory_maximum_) {
    return kNoBlock;
  }
  if (settings_.expandable_segments) return TryAllocateExpandableBlock(request);
  const std::optional<std::uint64_t> address = source_->Malloc(size, request.stream);
  if (!address) return kNoBlock;
  total_allocated_memory_ += size;
  const BlockIndex index = NewBlock();
  Block& block = blocks_[index];
  block.address = *address;
  block.size = size;
  block.stream = static_cast<std::int16_t>(request.stream);
  block.pool = request.pool;
  const bool small = pools_[request.pool].is_small;
  segment_.Increase(small, 1);
  reserved_bytes_.Increase(small, size);
  if (size >= settings_.max_split_size) Increase(&stats_.oversize_segments, 1);
  ++stats_.num_device_alloc;
  return index;
}

bool AllocatorCore::ShouldSplit(const Block& block, Bytes size) const {
  const Bytes remaining = block.size - size;
  if (pools_[block.pool].is_small || settings_.expandable_segments) {
    return remaining >= kMinBlockSize;
  }
  return size < settings_.max_split_size && remaining > kSmallSize;
}

BlockIndex AllocatorCore::AllocFoundBlock(const Request& request, BlockIndex index,
                                          Bytes requested_size) {
  const bool small = pools_[request.pool].is_small;
  const bool already_split = IsSplit(blocks_[index]);
  const bool counts_inactive = blocks_[index].segment == kNoBlock;
  if (ShouldSplit(blocks_[index], request.size)) {
    const BlockIndex rest_index = index;
    index = NewBlock();
    Block& block = blocks_[index];
    Block& rest = blocks_[rest_index];
    block.address = rest.address;
    block.size = request.size;
    block.stream = static_cast<std::int16_t>(request.stream);
    block.pool = request.pool;
    block.segment = rest.segment;
    block.prev = rest.prev;
    if (block.prev != kNoBlock) blocks_[block.prev].next = index;
    block.next = rest_index;
    rest.prev = index;
    rest.address += static_cast<std::uint64_t>(request.size);
    rest.size -= request.size;
    InsertIntoBlocks(rest_index);
    if (counts_inactive) {
      if (already_split) {
        inactive_split_bytes_.Decrease(small, request.size);
      } else {
        inactive_split_bytes_.Increase(small, rest.size);
        inactive_split_.Increase(small, 1);
      }
    }
  } else if (already_split && counts_inactive) {
    inactive_split_bytes_.Decrease(small, blocks_[index].size);
    inactive_split_.Decrease(small, 1);
  }
  Block& block = blocks_[index];
  block.allocated = true;
  block.requested_size = requested_size;
  allocation_.Increase(small, 1);
  allocated_bytes_.Increase(small, block.size);
  requested_bytes_.Increase(small, requested_size);
  if (counts_active_) [[unlikely]] {
    active_.Increase(small, 1);
    active_bytes_.Increase(small, block.size);
  }
  if (block.size >= settings_.max_split_size) Increase(&stats_.oversize_allocations, 1);
  return index;
}

void AllocatorCore::RecordStream(BlockIndex block, int stream) {
  if (stream != blocks_[block].stream) blocks_[block].stream_uses = true;
}

void AllocatorCore::Free(BlockIndex index) {
  Block& block = blocks_[index];
  const bool small = pools_[block.pool].is_small;
  block.allocated = false;
  if (block.stream_uses && !counts_active_) [[unlikely]] {
    active_ = allocation_;
    active_bytes_ = allocated_bytes_;
    counts_active_ = true;
  }
  allocation_.Decrease(small, 1);
  allocated_bytes_.Decrease(small, block.size);
  if (block.size >= settings_.max_split_size) Decrease(&stats_.oversize_allocations, 1);
  if (block.stream_uses) [[unlikely]] {
    block.stream_uses = false;
    block.pending = true;
    pending_.push_back(index);
    return;
  }
  FreeBlock(index);
}

void AllocatorCore::CompleteFree(BlockIndex block) {
  if (!blocks_[block].pending) return;
  blocks_[block].pending = false;
  std::erase(pending_, block);
  FreeBlock(block);
}

void AllocatorCore::FreeBlock(BlockIndex index) {
  const Bytes original_size = blocks_[index].size;
  const Bytes requested_size = blocks_[index].requested_size;
  std::int64_t change = 0;
  Bytes size_change = 0;
  for (const BlockIndex neighbour : {blocks_[index].prev, blocks_[index].next}) {
    if (const Bytes subsumed = TryMergeBlocks(index, neighbour); subsumed > 0) {
      --change;
      size_change -= subsumed;
    }
  }
  InsertIntoBlocks(index);
  const Block& block = blocks_[index];
  const bool small = pools_[block.pool].is_small;
  if (block.segment == kNoBlock) {
    if (IsSplit(block)) {
      ++change;
      size_change += block.size;
    }
    inactive_split_.Add(small, change);
    inactive_split_bytes_.Add(small, size_change);
  }
  requested_bytes_.Decrease(small, requested_size);
  if (counts_active_) [[unlikely]] {
    active_.Decrease(small, 1);
    active_bytes_.Decrease(small, original_size);
  }
}

// Joins the cached neighbour `src` to `dst`. Returns its size, 0 if it is in use.
Bytes AllocatorCore::TryMergeBlocks(BlockIndex dst, BlockIndex src) {
  if (src == kNoBlock) return 0;
  Block& to = blocks_[dst];
  const Block& from = blocks_[src];
  if (from.allocated || from.pending || to.mapped != from.mapped) return 0;
  if (from.mapped) {
    EraseFromBlocks(src);
  } else {
    EraseUnmapped(src);
  }
  if (to.prev == src) {
    to.address = from.address;
    to.prev = from.prev;
    if (to.prev != kNoBlock) blocks_[to.prev].next = dst;
  } else {
    to.next = from.next;
    if (to.next != kNoBlock) blocks_[to.next].prev = dst;
  }
  const Bytes subsumed = from.size;
  to.size += subsumed;
  DeleteBlock(src);
  return subsumed;
}

Allocator::Allocator(const Options& options, SegmentSource* source)
    : core_(std::make_unique<AllocatorCore>(options, source)) {}
Allocator::~Allocator() = default;
Allocator::Allocator(Allocator&&) noexcept = default;
Allocator& Allocator::operator=(Allocator&&) noexcept = default;

namespace {
BlockIndex Index(BlockId block) { return static_cast<BlockIndex>(block); }
}  // namespace

BlockId Allocator::Malloc(Bytes size, int stream) {
  return static_cast<BlockId>(core_->Malloc(size, stream));
}
void Allocator::Free(BlockId block) { core_->Free(Index(block)); }
void Allocator::RecordStream(BlockId block, int stream) {
  core_->RecordStream(Index(block), stream);
}
void Allocator::CompleteFree(BlockId block) { core_->CompleteFree(Index(block)); }
void Allocator::EmptyCache() { core_->EmptyCache(); }
PoolId Allocator::CreatePool() { return core_->CreatePool(); }
void Allocator::BeginAllocateToPool(PoolId pool) { core_->BeginAllocateToPool(pool); }
void Allocator::EndAllocateToPool() { core_->EndAllocateToPool(); }
void Allocator::ReleasePool(PoolId pool) { core_->ReleasePool(pool); }
std::uint64_t Allocator::Address(BlockId block) const { return core_->At(Index(block)).address; }
Bytes Allocator::Size(BlockId block) const { return core_->At(Index(block)).size; }
AllocatorStatistics Allocator::Statistics() const { return core_->Statistics(); }
Bytes Allocator::reserved_bytes() const { return core_->reserved_bytes(); }
void Allocator::ResetPeakStatistics() { core_->ResetPeakStatistics(); }
void Allocator::ResetAccumulatedStatistics() { core_->ResetAccumulatedStatistics(); }
std::vector<SegmentInfo> Allocator::Snapshot() const { return core_->Snapshot(); }
std::string Allocator::CheckInvariants() const { return core_->CheckInvariants(); }

}  // namespace memmodel
