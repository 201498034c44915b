#include "src/vgpu/memory_pool.h"

#include <algorithm>
#include <iterator>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{32} << 20;
constexpr std::uint64_t kUnit = 512;

}  // namespace

MemoryOutcome MemoryPool::Allocate(DeviceMemory* memory, std::uint64_t bytes,
                                   std::uint64_t* address) {
  if (bytes > kSpaceEnd) return MemoryOutcome::kOutOfMemory;
  const std::uint64_t size = (bytes + kUnit - 1) / kUnit * kUnit;
  if (size == 0) return MemoryOutcome::kInvalid;
  *address = 0;
  for (auto& [begin, chunk] : chunks_) {
    if (chunk.bytes - chunk.used < size) continue;
    *address = chunk.gaps.TakeLowest(size);
    if (*address != 0) {
      chunk.used += size;
      break;
    }
  }
  if (*address == 0) {
    const std::uint64_t chunk_bytes = (size + kChunk - 1) / kChunk * kChunk;
    const MemoryOutcome outcome = memory->Allocate(device_, chunk_bytes, address);
    if (outcome != MemoryOutcome::kOk) return outcome;
    Chunk& chunk = chunks_[*address];
    chunk.bytes = chunk_bytes;
    chunk.used = size;
    if (chunk_bytes > size) chunk.gaps.Add(*address + size, chunk_bytes - size);
    reserved_ += chunk_bytes;
    reserved_high_ = std::max(reserved_high_, reserved_);
  }
  blocks_.emplace(*address, size);
  used_ += size;
  used_high_ = std::max(used_high_, used_);
  return MemoryOutcome::kOk;
}

MemoryOutcome MemoryPool::Free(std::uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return MemoryOutcome::kInvalid;
  Chunk& chunk = std::prev(chunks_.upper_bound(address))->second;
  chunk.gaps.Add(address, block->second);
  chunk.used -= block->second;
  used_ -= block->second;
  blocks_.erase(block);
  return MemoryOutcome::kOk;
}

void MemoryPool::TrimTo(DeviceMemory* memory, std::uint64_t keep) {
  for (auto chunk = chunks_.begin(); chunk != chunks_.end() && reserved_ > keep;) {
    if (chunk->second.used > 0) {
      ++chunk;
      continue;
    }
    static_cast<void>(memory->Free(chunk->first));
    reserved_ -= chunk->second.bytes;
    chunk = chunks_.erase(chunk);
  }
}

}  // namespace memmodel::vgpu
