#include "src/vgpu/address_space.h"

#include <iterator>

namespace memmodel::vgpu {
namespace {

using Ranges = std::map<std::uint64_t, std::uint64_t>;

// cudaMalloc takes address space in chunks of this size and alignment.
constexpr std::uint64_t kChunkBytes = std::uint64_t{32} << 20;

constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

AddressSpace::AddressSpace() { gaps_.emplace(kSpaceBegin, kSpaceEnd - kSpaceBegin); }

std::uint64_t AddressSpace::Allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kSpaceEnd - kSpaceBegin) return 0;
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < bytes) continue;
    const auto [begin, length] = *hole;
    holes_.erase(hole);
    if (length > bytes) holes_.emplace(begin + bytes, length - bytes);
    return begin;
  }
  const std::uint64_t chunk = RoundUp(bytes, kChunkBytes);
  const std::uint64_t address = TakeFromTop(chunk, kChunkBytes);
  if (address != 0 && chunk > bytes) holes_.emplace(address + bytes, chunk - bytes);
  return address;
}

void AddressSpace::Free(std::uint64_t address, std::uint64_t bytes) {
  Return(&holes_, address, bytes);
}

std::uint64_t AddressSpace::Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                    std::uint64_t wanted) {
  if (bytes == 0 || bytes > kSpaceEnd - kSpaceBegin) return 0;
  if (Contains(wanted) && wanted % kPageBytes == 0 && bytes <= kSpaceEnd - wanted) {
    auto gap = gaps_.upper_bound(wanted);
    if (gap != gaps_.begin()) {
      --gap;
      if (gap->first + gap->second >= wanted + bytes) {
        Take(gap, wanted, bytes);
        return wanted;
      }
    }
  }
  return TakeFromTop(bytes, alignment < kPageBytes ? kPageBytes : alignment);
}

void AddressSpace::Release(std::uint64_t address, std::uint64_t bytes) {
  Return(&gaps_, address, bytes);
}

std::uint64_t AddressSpace::TakeFromTop(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    if (gap->second < bytes) continue;
    const std::uint64_t address = (gap->first + gap->second - bytes) / alignment * alignment;
    if (address < gap->first) continue;
    Take(std::prev(gap.base()), address, bytes);
    return address;
  }
  return 0;
}

void AddressSpace::Take(Ranges::iterator gap, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t begin = gap->first;
  const std::uint64_t end = begin + gap->second;
  gaps_.erase(gap);
  if (address > begin) gaps_.emplace(begin, address - begin);
  if (end > address + bytes) gaps_.emplace(address + bytes, end - address - bytes);
}

void AddressSpace::Return(Ranges* gaps, std::uint64_t address, std::uint64_t bytes) {
  auto next = gaps->lower_bound(address);
  if (next != gaps->end() && next->first == address + bytes) {
    bytes += next->second;
    next = gaps->erase(next);
  }
  if (next != gaps->begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  gaps->emplace(address, bytes);
}

}  // namespace memmodel::vgpu
