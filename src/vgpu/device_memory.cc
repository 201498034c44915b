#include "src/vgpu/device_memory.h"

#include <iterator>
#include <limits>

namespace memmodel::vgpu {
namespace {

// The entry of a map by address that holds `address`, with `bytes(entry)` long.
template <typename Map, typename Bytes>
typename Map::const_iterator Holding(const Map& map, std::uint64_t address, Bytes bytes) {
  auto entry = map.upper_bound(address);
  if (entry == map.begin()) return map.end();
  --entry;
  return address - entry->first < bytes(entry->second) ? entry : map.end();
}

bool WholePages(std::uint64_t value) { return value % kPageBytes == 0; }

}  // namespace

void DeviceMemory::AddDevice(std::uint64_t total_bytes, std::uint64_t context_bytes,
                             const ContextCost& cost) {
  const auto device = static_cast<int>(devices_.size());
  devices_.push_back({.addresses = AddressesOf(device),
                      .cost = cost,
                      .total = total_bytes,
                      .fixed_context = context_bytes});
}

void DeviceMemory::SetCapacity(int device, std::uint64_t total_bytes,
                               std::uint64_t context_bytes) {
  devices_[Index(device)].total = total_bytes;
  devices_[Index(device)].fixed_context = context_bytes;
}

bool DeviceMemory::Fits(const Device& device, std::uint64_t bytes) {
  return device.total == 0 ||
         (bytes <= device.total && device.used + device.Context() <= device.total - bytes);
}

MemoryOutcome DeviceMemory::Charge(int device, std::uint64_t bytes) {
  Device& d = devices_[Index(device)];
  if (!Fits(d, bytes)) return MemoryOutcome::kOutOfMemory;
  d.used += bytes;
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::GrowContext(Device* device, std::uint64_t bytes) {
  if (device->fixed_context == 0 && !Fits(*device, bytes)) return MemoryOutcome::kOutOfMemory;
  device->grown_context += bytes;
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::FirstKernel(int device) {
  Device& d = devices_[Index(device)];
  if (d.kernel_launched) return MemoryOutcome::kOk;
  const MemoryOutcome outcome = GrowContext(&d, d.cost.first_kernel_bytes);
  if (outcome != MemoryOutcome::kOk) return outcome;
  d.kernel_launched = true;
  d.addresses.FirstKernel();
  return outcome;
}

MemoryOutcome DeviceMemory::CublasHandle(int device) {
  Device& d = devices_[Index(device)];
  const MemoryOutcome outcome = GrowContext(&d, d.cost.cublas_handle_bytes);
  if (outcome == MemoryOutcome::kOk) d.addresses.CublasHandle();
  return outcome;
}

MemoryOutcome DeviceMemory::CudnnHandle(int device) {
  Device& d = devices_[Index(device)];
  const MemoryOutcome outcome = GrowContext(&d, d.cost.cudnn_handle_bytes);
  if (outcome == MemoryOutcome::kOk) d.addresses.CudnnHandle();
  return outcome;
}

MemoryOutcome DeviceMemory::Allocate(int device, std::uint64_t bytes, std::uint64_t* address) {
  if (bytes > kSpaceEnd) return MemoryOutcome::kOutOfMemory;
  const std::uint64_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (rounded == 0) return MemoryOutcome::kInvalid;
  if (const MemoryOutcome outcome = Charge(device, rounded); outcome != MemoryOutcome::kOk) {
    return outcome;
  }
  *address = devices_[Index(device)].addresses.Allocate(rounded);
  if (*address == 0) {
    devices_[Index(device)].used -= rounded;
    return MemoryOutcome::kOutOfMemory;
  }
  blocks_.emplace(*address, Block{*address, rounded, device});
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Free(std::uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return MemoryOutcome::kInvalid;
  Device& device = devices_[Index(block->second.device)];
  device.used -= block->second.bytes;
  device.addresses.Free(address, block->second.bytes);
  blocks_.erase(block);
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                    std::uint64_t wanted, std::uint64_t* address) {
  if (bytes == 0 || !WholePages(bytes) || (alignment & (alignment - 1)) != 0) {
    return MemoryOutcome::kInvalid;
  }
  *address = reservations_placer_.Reserve(bytes, alignment, wanted);
  if (*address == 0) return MemoryOutcome::kOutOfMemory;
  reservations_.emplace(*address, bytes);
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::FreeReservation(std::uint64_t address, std::uint64_t bytes) {
  const auto reservation = reservations_.find(address);
  if (reservation == reservations_.end() || reservation->second != bytes) {
    return MemoryOutcome::kInvalid;
  }
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first < address + bytes) {
    return MemoryOutcome::kInvalid;  // still mapped
  }
  reservations_placer_.Release(address, bytes);
  reservations_.erase(reservation);
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Create(int device, std::uint64_t bytes, std::uint64_t* handle) {
  if (bytes == 0 || !WholePages(bytes)) return MemoryOutcome::kInvalid;
  if (const MemoryOutcome outcome = Charge(device, bytes); outcome != MemoryOutcome::kOk) {
    return outcome;
  }
  *handle = next_handle_++;
  physical_.emplace(*handle, Physical{.device = device, .bytes = bytes, .references = 1});
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Retain(std::uint64_t address, std::uint64_t* handle) {
  const auto mapping = Holding(mappings_, address, [](const Mapping& m) { return m.bytes; });
  if (mapping == mappings_.end()) return MemoryOutcome::kInvalid;
  *handle = mapping->second.handle;
  ++physical_[*handle].references;
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Release(std::uint64_t handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.references == 0) return MemoryOutcome::kInvalid;
  --found->second.references;
  DropUnused(handle);
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.references == 0 || bytes == 0 ||
      bytes > found->second.bytes || !WholePages(address) || !WholePages(bytes)) {
    return MemoryOutcome::kInvalid;
  }
  const auto reservation = Holding(reservations_, address, [](std::uint64_t b) { return b; });
  if (reservation == reservations_.end() ||
      bytes > reservation->first + reservation->second - address) {
    return MemoryOutcome::kInvalid;
  }
  const auto next = mappings_.lower_bound(address);
  if ((next != mappings_.end() && next->first < address + bytes) ||
      Holding(mappings_, address, [](const Mapping& m) { return m.bytes; }) != mappings_.end()) {
    return MemoryOutcome::kInvalid;  // already mapped
  }
  mappings_.emplace(address, Mapping{bytes, handle});
  ++found->second.mappings;
  return MemoryOutcome::kOk;
}

MemoryOutcome DeviceMemory::Unmap(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || bytes > std::numeric_limits<std::uint64_t>::max() - address) {
    return MemoryOutcome::kInvalid;
  }
  // Whole mappings, without a gap, as the driver demands.
  const auto first = mappings_.find(address);
  auto last = first;
  std::uint64_t end = address;
  while (last != mappings_.end() && last->first == end && end < address + bytes) {
    end += last->second.bytes;
    ++last;
  }
  if (end != address + bytes) return MemoryOutcome::kInvalid;
  for (auto mapping = first; mapping != last; mapping = mappings_.erase(mapping)) {
    const std::uint64_t handle = mapping->second.handle;
    --physical_[handle].mappings;
    DropUnused(handle);
  }
  return MemoryOutcome::kOk;
}

void DeviceMemory::DropUnused(std::uint64_t handle) {
  const auto found = physical_.find(handle);
  if (found->second.references > 0 || found->second.mappings > 0) return;
  devices_[Index(found->second.device)].used -= found->second.bytes;
  physical_.erase(found);
}

std::optional<int> DeviceMemory::HandleDevice(std::uint64_t handle) const {
  const auto found = physical_.find(handle);
  if (found == physical_.end()) return std::nullopt;
  return found->second.device;
}

std::optional<Block> DeviceMemory::Find(std::uint64_t address) const {
  if (const auto block = Holding(blocks_, address, [](const Block& b) { return b.bytes; });
      block != blocks_.end()) {
    return block->second;
  }
  if (const auto mapping = Holding(mappings_, address, [](const Mapping& m) { return m.bytes; });
      mapping != mappings_.end()) {
    return Block{mapping->first, mapping->second.bytes,
                 physical_.at(mapping->second.handle).device};
  }
  return std::nullopt;
}

}  // namespace memmodel::vgpu
