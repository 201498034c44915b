// What a cubin (an ELF file with a GPU's machine code) says of its kernels: what
// cuFuncGetAttribute answers, and where the parameters of a launch lie.
//
// Layout, read from cubins that ptxas wrote, with cuobjdump -elf beside them: section
// .nv.info holds attributes of all kernels and .nv.info.KERNEL those of one, each {u8
// format, u8 attribute, u16 value} or, in format 4, {u8, u8, u16 bytes, bytes}:
//   0x2f register count, 0x11 frame size: {u32 symbol, u32 value}
//   0x17 parameter: {u32 index, u16 ordinal, u16 offset, u32 flags, bytes of it << 18}
//   0x05 most threads, 0x10 threads of each block: {u32 x, u32 y, u32 z}
// .nv.shared.KERNEL has the size of the static shared memory, in files with a section
// .nv.shared.reserved.0 that of what the system reserves in each block too (1 KiB since
// compute capability 8.0, CUDA C++ Programming Guide).
#ifndef MEMMODEL_SRC_VGPU_CUBIN_H_
#define MEMMODEL_SRC_VGPU_CUBIN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/vgpu/export.h"

namespace memmodel::vgpu {

struct KernelParameter {
  std::uint32_t ordinal = 0;  // its place in cuLaunchKernel's array
  std::uint32_t offset = 0;   // in bytes, in a buffer of all
  std::uint32_t bytes = 0;
};

struct KernelCode {
  std::string name;
  int registers = 0;               // a thread
  int local_bytes = 0;             // a thread: its stack frame
  std::uint64_t shared_bytes = 0;  // static, a block
  int threads = 0;                 // the most a block may have by its launch bounds; 0: unbounded
  std::vector<KernelParameter> parameters;
};

struct MEMMODEL_VGPU_EXPORT Cubin {
  std::uint64_t bytes = 0;
  std::vector<KernelCode> kernels;

  [[nodiscard]] const KernelCode* Find(const std::string& name) const;
};

// `most`: how many bytes may be read at `image`. nullopt if it is no cubin, or a broken one.
MEMMODEL_VGPU_EXPORT std::optional<Cubin> ReadCubin(const void* image, std::uint64_t most);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUBIN_H_
