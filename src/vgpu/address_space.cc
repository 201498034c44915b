#include "src/vgpu/address_space.h"

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kDeviceSpace = (kReservationsBegin - kSpaceBegin) / kMostDevices;

}  // namespace

ContextAddresses AddressesOf(int device) {
  const std::uint64_t begin = kSpaceBegin + static_cast<std::uint64_t>(device) * kDeviceSpace;
  return {begin, begin + kDeviceSpace};
}

ReservationPlacer::ReservationPlacer() {
  gaps_.Add(kReservationsBegin, kSpaceEnd - kReservationsBegin);
}

std::uint64_t ReservationPlacer::Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                         std::uint64_t wanted) {
  if (bytes == 0 || bytes > kSpaceEnd - kReservationsBegin) return 0;
  if (wanted >= kReservationsBegin && wanted % kPageBytes == 0 && wanted < kSpaceEnd &&
      gaps_.TakeAt(wanted, bytes)) {
    return wanted;
  }
  return gaps_.TakeHighest(bytes, alignment < kPageBytes ? kPageBytes : alignment);
}

void ReservationPlacer::Release(std::uint64_t address, std::uint64_t bytes) {
  gaps_.Add(address, bytes);
}

}  // namespace memmodel::vgpu
