#include <doctest/doctest.h>

#include "memmodel/allocator.h"

namespace memmodel {
namespace {

TEST_CASE("a device hands out its capacity in pages of 2 MiB and no more") {
  DeviceMemory device(10 * kMiB);
  const auto a = device.Malloc(2 * kMiB, 0);
  const auto b = device.Malloc(3 * kMiB, 0);
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(*b == *a + 2 * kMiB);
  CHECK(device.free_bytes() == 4 * kMiB);
  CHECK_FALSE(device.Malloc(5 * kMiB, 0).has_value());
  device.Free(*a, 2 * kMiB);
  CHECK(device.Malloc(2 * kMiB, 0) == a);
  device.Free(*b, 3 * kMiB);
  CHECK(device.free_bytes() == 8 * kMiB);
}

TEST_CASE("returned ranges join") {
  DeviceMemory device;
  const auto a = device.Malloc(2 * kMiB, 0);
  const auto b = device.Malloc(2 * kMiB, 0);
  const auto c = device.Malloc(2 * kMiB, 0);
  const auto d = device.Malloc(2 * kMiB, 0);
  device.Free(*a, 2 * kMiB);
  device.Free(*c, 2 * kMiB);
  CHECK(device.Malloc(6 * kMiB, 0) == *d + 2 * kMiB);
  device.Free(*b, 2 * kMiB);
  CHECK(device.Malloc(6 * kMiB, 0) == a);
}

TEST_CASE("mapping takes memory, reserving does not") {
  DeviceMemory device(4 * kMiB);
  const std::uint64_t range = device.Reserve(kGiB, 2 * kMiB, 0);
  CHECK(device.free_bytes() == 4 * kMiB);
  CHECK(device.Map(range, 4 * kMiB));
  CHECK_FALSE(device.Map(range + 4 * kMiB, 2 * kMiB));
  device.Unmap(range, 4 * kMiB);
  CHECK(device.free_bytes() == 4 * kMiB);
}

}  // namespace
}  // namespace memmodel
