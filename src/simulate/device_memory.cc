#include "memmodel/allocator.h"
#include "memmodel/trace.h"
#include "src/core/context_addresses.h"
#include "src/simulate/allocator_core.h"

namespace memmodel {
namespace {

constexpr Bytes kPage = 2 * kMiB;
// Chunks lie between the first two addresses, reserved ranges above the third, where
// 9/8 of any device's memory fits many times.
constexpr std::uint64_t kBeginOfChunks = std::uint64_t{1} << 40;
constexpr std::uint64_t kEndOfChunks = std::uint64_t{0x7f} << 40;
constexpr std::uint64_t kFirstReserved = std::uint64_t{1} << 48;

std::uint64_t Pages(Bytes size) { return static_cast<std::uint64_t>(RoundUp(size, kPage)); }

}  // namespace

DeviceMemory::DeviceMemory(Bytes capacity)
    : capacity_(capacity),
      addresses_(std::make_unique<ContextAddresses>(kBeginOfChunks, kEndOfChunks)),
      next_reserved_(kFirstReserved) {}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&&) noexcept = default;

std::optional<std::uint64_t> DeviceMemory::Malloc(Bytes size, int) {
  const std::uint64_t pages = Pages(size);
  if (static_cast<Bytes>(pages) > free_bytes()) return std::nullopt;
  const std::uint64_t address = addresses_->Allocate(pages);
  if (address == 0) return std::nullopt;
  used_ += static_cast<Bytes>(pages);
  return address;
}

void DeviceMemory::Free(std::uint64_t address, Bytes size) {
  used_ -= static_cast<Bytes>(Pages(size));
  addresses_->Free(address, Pages(size));
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

void DeviceMemory::Happened(ContextOccasion occasion) {
  switch (occasion) {
    case ContextOccasion::kFirstKernel:
      return addresses_->FirstKernel();
    case ContextOccasion::kCublasHandle:
      return addresses_->CublasHandle();
    case ContextOccasion::kCudnnHandle:
      return addresses_->CudnnHandle();
  }
}

}  // namespace memmodel
