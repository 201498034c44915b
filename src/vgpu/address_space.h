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
#include "src/core/context_addresses.h"

namespace memmodel::vgpu {

inline constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

inline constexpr std::uint64_t kSpaceBegin = 0x2000'0000'0000;
inline constexpr std::uint64_t kReservationsBegin = 0x4000'0000'0000;
inline constexpr std::uint64_t kSpaceEnd = 0x5000'0000'0000;
inline constexpr int kMostDevices = 16;

[[nodiscard]] inline bool OnDevice(std::uint64_t address) {
  return address >= kSpaceBegin && address < kSpaceEnd;
}

// Where cudaMalloc's addresses on one device lie, 0 <= device < kMostDevices; their
// order is ContextAddresses' own.
[[nodiscard]] ContextAddresses AddressesOf(int device);

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
