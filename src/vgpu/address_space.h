// Where in the address space the virtual GPU's memory lies. Only addresses are
// handed out here; nothing stands behind them.
#ifndef MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_
#define MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_

#include <cstdint>
#include <map>

namespace memmodel::vgpu {

inline constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

// Addresses of device memory lie in [kSpaceBegin, kSpaceEnd): a part of the
// 47-bit user space that Linux leaves free on x86-64 and AArch64 (programs lie
// around 0x55..., mappings grow down from 0x7f...).
inline constexpr std::uint64_t kSpaceBegin = 0x2000'0000'0000;
inline constexpr std::uint64_t kSpaceEnd = 0x4000'0000'0000;

// Not thread-safe.
class AddressSpace {
 public:
  AddressSpace();

  // A range of `bytes` (a multiple of kPageBytes, not 0) for cudaMalloc; 0 if
  // the space is exhausted.
  [[nodiscard]] std::uint64_t Allocate(std::uint64_t bytes);
  void Free(std::uint64_t address, std::uint64_t bytes);

  // A range for driver virtual memory, aligned to `alignment` (a power of two,
  // or 0). `wanted`, if not 0, is taken where it is free. 0 if there is none.
  [[nodiscard]] std::uint64_t Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                      std::uint64_t wanted);
  void Release(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] static bool Contains(std::uint64_t address) {
    return address >= kSpaceBegin && address < kSpaceEnd;
  }

 private:
  std::uint64_t TakeFromTop(std::uint64_t bytes, std::uint64_t alignment);
  void Take(std::map<std::uint64_t, std::uint64_t>::iterator gap, std::uint64_t address,
            std::uint64_t bytes);
  static void Return(std::map<std::uint64_t, std::uint64_t>* gaps, std::uint64_t address,
                     std::uint64_t bytes);

  std::map<std::uint64_t, std::uint64_t> gaps_;   // free ranges of the whole space: begin -> bytes
  std::map<std::uint64_t, std::uint64_t> holes_;  // free ranges inside chunks of cudaMalloc
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_
