// What tells one virtual device from another.
#ifndef MEMMODEL_SRC_VGPU_DEVICE_IDENTITY_H_
#define MEMMODEL_SRC_VGPU_DEVICE_IDENTITY_H_

#include <array>
#include <string>

#include "src/vgpu/export.h"

namespace memmodel::vgpu {

using Uuid = std::array<unsigned char, 16>;

// The same in every process; one of its own for each device number.
MEMMODEL_VGPU_EXPORT Uuid DeviceUuid(int device);
// "0000:06:00.0", as cudaDeviceGetPCIBusId writes it.
MEMMODEL_VGPU_EXPORT std::string DevicePciBusId(int device);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_DEVICE_IDENTITY_H_
