#include <iterator>

#include "memmodel/allocator.h"
#include "src/simulate/allocator_core.h"

namespace memmodel {
namespace {

constexpr std::uint64_t kPage = 2 * kMiB;
// Addresses as CUDA hands them out on Linux lie below 2^47.
constexpr std::uint64_t kFirstAddress = std::uint64_t{0x7} << 44;
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 60;

std::uint64_t Pages(Bytes size) {
  return static_cast<std::uint64_t>(RoundUp(size, static_cast<Bytes>(kPage)));
}

}  // namespace

DeviceMemory::DeviceMemory(Bytes capacity) : capacity_(capacity) {
  free_ranges_.emplace(kFirstAddress, kAddressSpace);
}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&&) noexcept = default;

std::uint64_t DeviceMemory::Take(std::uint64_t size) {
  for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
    if (range->second < size) continue;
    const auto [address, length] = *range;
    const auto after = free_ranges_.erase(range);
    if (length > size) free_ranges_.emplace_hint(after, address + size, length - size);
    return address;
  }
  return 0;  // cannot be: the address space is far larger than any device
}

void DeviceMemory::Return(std::uint64_t address, std::uint64_t size) {
  auto range = free_ranges_.emplace(address, size).first;
  if (range != free_ranges_.begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second == address) {
      before->second += size;
      free_ranges_.erase(range);
      range = before;
    }
  }
  const auto after = std::next(range);
  if (after != free_ranges_.end() && range->first + range->second == after->first) {
    range->second += after->second;
    free_ranges_.erase(after);
  }
}

std::optional<std::uint64_t> DeviceMemory::Malloc(Bytes size, int) {
  const std::uint64_t pages = Pages(size);
  if (static_cast<Bytes>(pages) > free_bytes()) return std::nullopt;
  used_ += static_cast<Bytes>(pages);
  return Take(pages);
}

void DeviceMemory::Free(std::uint64_t address, Bytes size) {
  used_ -= static_cast<Bytes>(Pages(size));
  Return(address, Pages(size));
}

std::uint64_t DeviceMemory::Reserve(Bytes size, Bytes, int) { return Take(Pages(size)); }
void DeviceMemory::Release(std::uint64_t address, Bytes size) { Return(address, Pages(size)); }

bool DeviceMemory::Map(std::uint64_t, Bytes size) {
  if (size > free_bytes()) return false;
  used_ += size;
  return true;
}

void DeviceMemory::Unmap(std::uint64_t, Bytes size) { used_ -= size; }

}  // namespace memmodel
