#include <algorithm>
#include <iterator>

#include "memmodel/allocator.h"
#include "src/simulate/allocator_core.h"

namespace memmodel {
namespace {

constexpr Bytes kPage = 2 * kMiB;
constexpr Bytes kChunk = 32 * kMiB;
// Chunks lie below the first address, reserved ranges above the second, where
// 9/8 of any device's memory fits many times.
constexpr std::uint64_t kEndOfChunks = std::uint64_t{0x7f} << 40;
constexpr std::uint64_t kFirstReserved = std::uint64_t{1} << 48;

std::uint64_t Pages(Bytes size) { return static_cast<std::uint64_t>(RoundUp(size, kPage)); }

// Puts a range back among the free ones and joins it to its neighbours.
void Return(std::map<std::uint64_t, std::uint64_t>* free, std::uint64_t address,
            std::uint64_t size) {
  auto range = free->emplace(address, size).first;
  if (range != free->begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second == address) {
      before->second += size;
      free->erase(range);
      range = before;
    }
  }
  const auto after = std::next(range);
  if (after != free->end() && range->first + range->second == after->first) {
    range->second += after->second;
    free->erase(after);
  }
}

// The lowest free range of `size`, or 0.
std::uint64_t Take(std::map<std::uint64_t, std::uint64_t>* free, std::uint64_t size) {
  for (auto range = free->begin(); range != free->end(); ++range) {
    if (range->second < size) continue;
    const auto [address, length] = *range;
    free->erase(range);
    if (length > size) free->emplace(address + size, length - size);
    return address;
  }
  return 0;
}

}  // namespace

DeviceMemory::DeviceMemory(Bytes capacity) : capacity_(capacity), next_reserved_(kFirstReserved) {}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&&) noexcept = default;

std::optional<std::uint64_t> DeviceMemory::Malloc(Bytes size, int) {
  const std::uint64_t pages = Pages(size);
  if (static_cast<Bytes>(pages) > free_bytes()) return std::nullopt;
  used_ += static_cast<Bytes>(pages);
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    if (const std::uint64_t address = Take(&chunk->free, pages); address != 0) return address;
  }
  Chunk chunk;
  chunk.size = static_cast<std::uint64_t>(RoundUp(size, kChunk));
  chunk.begin = kEndOfChunks;
  for (const Chunk& other : chunks_) chunk.begin = std::min(chunk.begin, other.begin);
  chunk.begin -= chunk.size;
  chunk.free.emplace(chunk.begin, chunk.size);
  chunks_.push_back(std::move(chunk));
  return Take(&chunks_.back().free, pages);
}

void DeviceMemory::Free(std::uint64_t address, Bytes size) {
  used_ -= static_cast<Bytes>(Pages(size));
  const auto chunk = std::find_if(chunks_.begin(), chunks_.end(), [&](const Chunk& c) {
    return address >= c.begin && address < c.begin + c.size;
  });
  if (chunk == chunks_.end()) return;
  Return(&chunk->free, address, Pages(size));
  if (chunk->free.begin()->second == chunk->size) chunks_.erase(chunk);
}

std::uint64_t DeviceMemory::Reserve(Bytes size, Bytes, int) {
  const std::uint64_t address = next_reserved_;
  next_reserved_ += Pages(size);
  return address;
}
void DeviceMemory::Release(std::uint64_t, Bytes) {}

bool DeviceMemory::Map(std::uint64_t, Bytes size) {
  if (size > free_bytes()) return false;
  used_ += size;
  return true;
}

void DeviceMemory::Unmap(std::uint64_t, Bytes size) { used_ -= size; }

}  // namespace memmodel
