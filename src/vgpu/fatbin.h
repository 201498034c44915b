// The container in which nvcc embeds a translation unit's device code for
// several GPU generations, as far as choosing one needs.
//
// Layout, read from binaries that nvcc wrote: a wrapper {u32 magic 0x466243b1,
// u32 version, pointer to the container} (fatbinary_section.h), a container
// {u32 magic 0xba55ed50, u16 version, u16 header bytes, u64 bytes after the
// header}, and in it entries {u16 kind (1 PTX, 2 code), u16 version, u32 header
// bytes, u64 bytes after the header, u32 compressed bytes, u32, u16, u16, u32
// architecture (90 for sm_90), u32, u32, u64 flags, u64, u64 bytes when
// decompressed}.
#ifndef MEMMODEL_SRC_VGPU_FATBIN_H_
#define MEMMODEL_SRC_VGPU_FATBIN_H_

#include <cstdint>
#include <optional>

#include "src/vgpu/export.h"

namespace memmodel::vgpu {

struct CodeImage {
  int architecture = 0;      // 10 * major + minor
  bool ptx = false;          // compiled by the driver when it is loaded
  std::uint64_t bytes = 0;   // of the image, decompressed
};

// The image that a device of this compute capability loads: code of the same
// major version and the highest minor one not above the device's; else the
// newest PTX not above it. nullopt if the container has neither or is not one.
MEMMODEL_VGPU_EXPORT std::optional<CodeImage> PickImage(const void* wrapper, int compute_capability);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_FATBIN_H_
