// Device memory: what is handed out, to which device it belongs, and how much
// of each device's capacity it takes.
#ifndef MEMMODEL_SRC_VGPU_DEVICE_MEMORY_H_
#define MEMMODEL_SRC_VGPU_DEVICE_MEMORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/vgpu/address_space.h"
#include "src/devices/device_file.h"
#include "src/vgpu/export.h"

namespace memmodel::vgpu {

enum class MemoryOutcome { kOk, kOutOfMemory, kInvalid };

// One allocation, or one mapped or reserved range of driver virtual memory.
struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  int device = 0;
};

// Not thread-safe.
class MEMMODEL_VGPU_EXPORT DeviceMemory {
 public:
  // The next device, of at most kMostDevices. A total of 0 bytes: no limit.
  // The context takes `context_bytes` once and for all, or if that is 0 what
  // `cost` says, as it grows.
  void AddDevice(std::uint64_t total_bytes, std::uint64_t context_bytes, const ContextCost& cost);
  void SetCapacity(int device, std::uint64_t total_bytes, std::uint64_t context_bytes);

  // The context grows. Fails with kOutOfMemory, and does not grow, when the
  // device has no room left for it.
  MemoryOutcome FirstKernel(int device);
  MemoryOutcome CublasHandle(int device);
  MemoryOutcome CudnnHandle(int device);

  // cudaMalloc: whole pages of 2 MiB. Fails with kOutOfMemory when used memory,
  // context and the rounded size together exceed the total.
  MemoryOutcome Allocate(int device, std::uint64_t bytes, std::uint64_t* address);
  MemoryOutcome Free(std::uint64_t address);

  // Driver virtual memory: an address range, physical memory, and the mapping
  // of one to the other. Physical memory takes capacity from Create until it is
  // released and unmapped everywhere.
  MemoryOutcome Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t wanted,
                        std::uint64_t* address);
  MemoryOutcome FreeReservation(std::uint64_t address, std::uint64_t bytes);
  MemoryOutcome Create(int device, std::uint64_t bytes, std::uint64_t* handle);
  MemoryOutcome Retain(std::uint64_t address, std::uint64_t* handle);  // of a mapped address
  MemoryOutcome Release(std::uint64_t handle);
  MemoryOutcome Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle);
  MemoryOutcome Unmap(std::uint64_t address, std::uint64_t bytes);
  [[nodiscard]] std::optional<int> HandleDevice(std::uint64_t handle) const;

  // The allocation or mapping that holds `address`.
  [[nodiscard]] std::optional<Block> Find(std::uint64_t address) const;

  [[nodiscard]] std::uint64_t used(int device) const { return devices_[Index(device)].used; }
  [[nodiscard]] std::uint64_t total(int device) const { return devices_[Index(device)].total; }
  // Memory that the context takes, with what the system keeps.
  [[nodiscard]] std::uint64_t context(int device) const {
    return devices_[Index(device)].Context();
  }
  // The part of it that no process can have.
  [[nodiscard]] std::uint64_t system(int device) const {
    const Device& d = devices_[Index(device)];
    return d.fixed_context == 0 ? d.cost.system_bytes : 0;
  }

 private:
  struct Device {
    ContextAddresses addresses;
    ContextCost cost;
    std::uint64_t total = 0;
    std::uint64_t fixed_context = 0;  // 0: cost and grown_context
    std::uint64_t grown_context = 0;
    std::uint64_t used = 0;
    bool kernel_launched = false;

    [[nodiscard]] std::uint64_t Context() const {
      return fixed_context != 0 ? fixed_context
                                : cost.system_bytes + cost.primary_bytes + grown_context;
    }
  };
  struct Physical {
    int device = 0;
    std::uint64_t bytes = 0;
    int references = 0;  // handles not yet released
    int mappings = 0;
  };
  struct Mapping {
    std::uint64_t bytes = 0;
    std::uint64_t handle = 0;
  };

  static std::size_t Index(int device) { return static_cast<std::size_t>(device); }
  [[nodiscard]] static bool Fits(const Device& device, std::uint64_t bytes);
  MemoryOutcome Charge(int device, std::uint64_t bytes);
  static MemoryOutcome GrowContext(Device* device, std::uint64_t bytes);
  void DropUnused(std::uint64_t handle);

  ReservationPlacer reservations_placer_;
  std::vector<Device> devices_;
  std::map<std::uint64_t, Block> blocks_;                 // cudaMalloc, by address
  std::map<std::uint64_t, std::uint64_t> reservations_;   // address -> bytes
  std::map<std::uint64_t, Mapping> mappings_;             // by address
  std::map<std::uint64_t, Physical> physical_;            // by handle
  std::uint64_t next_handle_ = 1;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_DEVICE_MEMORY_H_
