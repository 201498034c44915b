// How many blocks of a kernel an SM holds at once (CUDA C++ Programming Guide,
// multiprocessor level; the arithmetic of cuda_occupancy.h).
#ifndef MEMMODEL_SRC_VGPU_OCCUPANCY_H_
#define MEMMODEL_SRC_VGPU_OCCUPANCY_H_

#include <cstdint>

#include "src/devices/device_file.h"
#include "src/vgpu/export.h"

namespace memmodel::vgpu {

struct BlockResources {
  int threads = 0;
  int registers = 0;              // a thread
  std::uint64_t shared_bytes = 0;  // static and dynamic, a block
};

// 0 if not even one block fits.
MEMMODEL_VGPU_EXPORT int BlocksPerSm(const DeviceSpec& spec, const BlockResources& block);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_OCCUPANCY_H_
