#include "src/vgpu/address_space.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_CASE("devices do not share addresses") {
  ContextAddresses one = AddressesOf(0);
  ContextAddresses last = AddressesOf(kMostDevices - 1);
  const std::uint64_t a = one.Allocate(2 * kMiB);
  const std::uint64_t b = last.Allocate(2 * kMiB);
  CHECK(a != b);
  CHECK(OnDevice(a));
  CHECK(OnDevice(b));
}

TEST_CASE("a request beyond the address space finds none") {
  ContextAddresses placer = AddressesOf(0);
  CHECK(placer.Allocate(0) == 0);
  CHECK(placer.Allocate(kSpaceEnd) == 0);
  CHECK(placer.Allocate(kSpaceEnd - kSpaceBegin) == 0);
  CHECK(placer.Allocate(~std::uint64_t{0} / kPageBytes * kPageBytes) == 0);
}

TEST_CASE("reservations are aligned, apart from each other, and found again") {
  ReservationPlacer placer;
  const std::uint64_t a = placer.Reserve(160 * 1024 * kMiB, 0, 0);
  const std::uint64_t b = placer.Reserve(2 * kMiB, 64 * kMiB, 0);
  CHECK(a % kPageBytes == 0);
  CHECK(b % (64 * kMiB) == 0);
  CHECK((b + 2 * kMiB <= a || b >= a + 160 * 1024 * kMiB));
  CHECK(placer.Reserve(2 * kMiB, 0, a) != a);  // taken
  placer.Release(a, 160 * 1024 * kMiB);
  CHECK(placer.Reserve(2 * kMiB, 0, a) == a);
  CHECK(placer.Reserve(kSpaceEnd, 0, 0) == 0);
}

}  // namespace
}  // namespace memmodel::vgpu
