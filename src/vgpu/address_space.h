// Where in the address space the virtual GPU's memory lies. Only addresses are
// handed out here; nothing stands behind them.
//
// All of them lie in [kSpaceBegin, kSpaceEnd), which Linux leaves free on x86-64
// and AArch64 (programs lie around 0x55... or 0xaa..., mappings grow down from
// 0x7f... or 0xff..., and the sanitizers' shadows lie elsewhere).
#ifndef MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_
#define MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_

#include <cstdint>

#include "src/core/address_chunks.h"

namespace memmodel::vgpu {

inline constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

inline constexpr std::uint64_t kSpaceBegin = 0x2000'0000'0000;
inline constexpr std::uint64_t kReservationsBegin = 0x4000'0000'0000;
inline constexpr std::uint64_t kSpaceEnd = 0x5000'0000'0000;
inline constexpr int kMostDevices = 16;

[[nodiscard]] inline bool OnDevice(std::uint64_t address) {
  return address >= kSpaceBegin && address < kSpaceEnd;
}

// Places what cudaMalloc returns on one device, in the order of addresses that
// the driver gives: it decides which of two equally large free blocks PyTorch's
// allocator takes. See the essay in the .cc. Not thread-safe.
class MallocPlacer {
 public:
  explicit MallocPlacer(int device);  // 0 <= device < kMostDevices

  // `bytes` is a multiple of kPageBytes and not 0. 0 if the space is exhausted.
  [[nodiscard]] std::uint64_t Allocate(std::uint64_t bytes) { return chunks_.Allocate(bytes); }
  void Free(std::uint64_t address, std::uint64_t bytes) { chunks_.Free(address, bytes); }

  // What the driver takes and gives back for itself on these occasions.
  void FirstKernel();
  void CublasHandle(bool first);
  void CudnnHandle();

 private:
  AddressChunks chunks_;
  std::uint64_t arena_ = 0;
};

// Places address reservations of driver virtual memory. Not thread-safe.
class ReservationPlacer {
 public:
  ReservationPlacer();

  // `alignment` is a power of two or 0. `wanted`, if not 0, is taken where it
  // is free. 0 if nothing is.
  [[nodiscard]] std::uint64_t Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                      std::uint64_t wanted);
  void Release(std::uint64_t address, std::uint64_t bytes);

 private:
  Gaps gaps_;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_ADDRESS_SPACE_H_
