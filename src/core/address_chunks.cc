// How the driver lays out cudaMalloc, read off the segments' addresses in traces of
// training on an NVIDIA H200 (driver 580.159, torch 2.11.0).
//
// 1. Address space comes in chunks: the request rounded up to whole 32 MiB.
// 2. A request takes the lowest gap that holds it in the newest chunk that has one,
//    then in older ones; only then there is a new chunk. A chunk with nothing in it is
//    given back.
// 3. Chunks are aligned to 32 MiB in space that Linux's mmap gives from above: asked
//    for 32 MiB more than the chunk, it takes the highest gap that holds so much, and
//    the chunk lies at the end of it. A gap that just holds the chunk is passed over.
//
// Example: chunks of 32 MiB at 160, 128, 96, 64 and 32 MiB; those at 128 and 64 are
// given back. The next one lies at 0, below all: neither gap holds 64 MiB. Once 96 is
// given back too, there is a gap of 96 MiB, [64, 160), and the next lies at 128.
#include "src/core/address_chunks.h"

#include <iterator>

namespace memmodel {

void Gaps::Add(std::uint64_t address, std::uint64_t bytes) {
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  ranges_.emplace(address, bytes);
}

std::uint64_t Gaps::TakeLowest(std::uint64_t bytes) {
  for (auto gap = ranges_.begin(); gap != ranges_.end(); ++gap) {
    if (gap->second < bytes) continue;
    const std::uint64_t address = gap->first;
    Take(gap, address, bytes);
    return address;
  }
  return 0;
}

std::uint64_t Gaps::TakeHighest(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto gap = ranges_.rbegin(); gap != ranges_.rend(); ++gap) {
    if (gap->second < bytes) continue;
    const std::uint64_t address = (gap->first + gap->second - bytes) / alignment * alignment;
    if (address < gap->first) continue;
    Take(std::prev(gap.base()), address, bytes);
    return address;
  }
  return 0;
}

std::uint64_t Gaps::TakeTop(std::uint64_t bytes, std::uint64_t spare) {
  for (auto gap = ranges_.rbegin(); gap != ranges_.rend(); ++gap) {
    if (gap->second < spare || gap->second - spare < bytes) continue;
    const std::uint64_t address = gap->first + gap->second - bytes;
    Take(std::prev(gap.base()), address, bytes);
    return address;
  }
  return 0;
}

bool Gaps::TakeAt(std::uint64_t address, std::uint64_t bytes) {
  auto gap = ranges_.upper_bound(address);
  if (gap == ranges_.begin()) return false;
  --gap;
  if (gap->first + gap->second < address + bytes) return false;
  Take(gap, address, bytes);
  return true;
}

void Gaps::Take(Ranges::iterator gap, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = gap->first;
  const std::uint64_t end = begin + gap->second;
  ranges_.erase(gap);
  if (address > begin) ranges_.emplace(begin, address - begin);
  if (end > address + bytes) ranges_.emplace(address + bytes, end - address - bytes);
}

AddressChunks::AddressChunks(std::uint64_t begin, std::uint64_t end) {
  space_.Add(begin, end - begin);
}

std::uint64_t AddressChunks::Allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > ~std::uint64_t{0} - kChunkBytes) return 0;
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    if (chunk->bytes - chunk->used < bytes) continue;
    if (const std::uint64_t address = chunk->gaps.TakeLowest(bytes); address != 0) {
      chunk->used += bytes;
      return address;
    }
  }
  return AddChunk((bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes, bytes);
}

void AddressChunks::Free(std::uint64_t address, std::uint64_t bytes) {
  for (auto chunk = chunks_.begin(); chunk != chunks_.end(); ++chunk) {
    if (address < chunk->begin || address - chunk->begin >= chunk->bytes) continue;
    chunk->gaps.Add(address, bytes);
    chunk->used -= bytes;
    if (chunk->used == 0) {
      space_.Add(chunk->begin, chunk->bytes);
      chunks_.erase(chunk);
    }
    return;
  }
}

std::uint64_t AddressChunks::AddChunk(std::uint64_t bytes, std::uint64_t used) {
  const std::uint64_t begin = space_.TakeTop(bytes, kChunkBytes);
  if (begin == 0) return 0;
  Chunk& chunk = chunks_.emplace_back(Chunk{.begin = begin, .bytes = bytes, .used = used});
  if (bytes > used) chunk.gaps.Add(begin + used, bytes - used);
  return begin;
}

void AddressChunks::Skip(std::uint64_t bytes) { static_cast<void>(space_.TakeTop(bytes, 0)); }

}  // namespace memmodel
