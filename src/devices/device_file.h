// What a device file (docs/devices.md) says about one GPU.
#ifndef MEMMODEL_SRC_DEVICES_DEVICE_FILE_H_
#define MEMMODEL_SRC_DEVICES_DEVICE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"

namespace memmodel {

// What a process's context takes of the device's memory, as it grows.
struct ContextCost {
  std::uint64_t system_bytes = 0;        // of the total, that no process can have
  std::uint64_t primary_bytes = 0;       // at start
  std::uint64_t first_kernel_bytes = 0;  // at the first launch
  std::uint64_t cublas_handle_bytes = 0;
  std::uint64_t cudnn_handle_bytes = 0;
};

// Exported: the stand-ins share the one of libmemmodel_vgpu.so.
struct __attribute__((visibility("default"))) DeviceSpec {
  std::string name;         // "h200"
  std::string device_name;  // "NVIDIA H200"
  std::uint64_t total_bytes = 0;
  ContextCost context;
  // Fields of cudaDeviceProp by their own names; scalars have one element.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> cuda;

  // Clusters of 1, 2, ... thread blocks, one a multiprocessor, that the device
  // runs at once, as cuOccupancyMaxActiveClusters says; empty: not known.
  std::vector<std::int64_t> max_active_clusters;

  // Element `index` of a field; 0 if the file leaves the field out.
  [[nodiscard]] std::int64_t Get(std::string_view field, std::size_t index = 0) const;
  // The compute capability as 10 * major + minor.
  [[nodiscard]] int ComputeCapability() const;
};

// The array length of a field of `cuda` (1 for a scalar); 0 for a name that is no field.
[[nodiscard]] std::size_t DeviceFieldLength(std::string_view field);

// `text` is the whole of a device file, `path` names it in messages.
Result<DeviceSpec> ParseDeviceFile(std::string_view text, const std::string& path);
Result<DeviceSpec> ReadDeviceFile(const std::string& path);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_DEVICES_DEVICE_FILE_H_
