// cuDNN's own description of a device, from which it plans without one.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_PROPERTIES_H_
#define MEMMODEL_SRC_VGPU_CUDNN_PROPERTIES_H_

#include <cstdint>
#include <string>

#include "src/devices/device_file.h"

namespace memmodel::vgpu {

// The text of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION (cuDNN 9.8 and later)
// for a device. Multiprocessors, shared memory and the compute capability
// decide plans; clocks and the PCI position do not.
std::string CudnnDeviceProperties(const DeviceSpec& spec);

// How many clusters of `blocks` thread blocks, one a multiprocessor, the device
// runs at once: what the device file says (occupancy.max_active_clusters), else
// by the multiprocessors of GPU processing clusters of 16, within which a
// cluster must lie (NVIDIA H100 white paper: 8 of them with 16 or 18 each); 0 for
// a device without clusters and more than one block.
std::int64_t MaxActiveClusters(const DeviceSpec& spec, std::int64_t blocks);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_PROPERTIES_H_
