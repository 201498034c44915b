// Device attributes (cudaDeviceAttr, CUdevice_attribute: the same numbers) in
// terms of the device file's fields.
#ifndef MEMMODEL_SRC_VGPU_DEVICE_ATTRIBUTES_H_
#define MEMMODEL_SRC_VGPU_DEVICE_ATTRIBUTES_H_

#include <cstddef>
#include <optional>
#include <span>

#include "src/devices/device_file.h"
#include "src/vgpu/export.h"

namespace memmodel::vgpu {

// Element `index` of `field` is attribute `number`.
struct AttributeField {
  int number;
  const char* field;
  std::size_t index;
};
MEMMODEL_VGPU_EXPORT std::span<const AttributeField> AttributeFields();

// The attribute's value on device number `device`; nullopt for a number that
// CUDA 13 does not know.
MEMMODEL_VGPU_EXPORT std::optional<int> DeviceAttribute(const DeviceSpec& spec, int device,
                                                        int attribute);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_DEVICE_ATTRIBUTES_H_
