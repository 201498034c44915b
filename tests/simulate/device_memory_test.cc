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
  const auto e = device.Malloc(6 * kMiB, 0);
  CHECK(e == *d + 2 * kMiB);
  device.Free(*b, 2 * kMiB);
  CHECK(device.Malloc(6 * kMiB, 0) == a);
}

// Segments of a ResNet-50 step on an H200 (driver 580.159): addresses relative to
// the first of these, as recorded.
TEST_CASE("addresses are those that the driver gave") {
  const struct {
    Bytes size;
    std::int64_t offset;
  } kRecorded[] = {
      {52428800, 0},          {52428800, -0x4000000},  {27262976, -0x6000000},
      {27262976, -0x8000000}, {33554432, -0xa000000},  {27262976, -0xc000000},
      {27262976, -0xe000000}, {52428800, -0x12000000}, {27262976, -0x14000000},
      {20971520, -0x16000000}, {27262976, -0x18000000}, {27262976, -0x1a000000},
      {20971520, -0x1c000000}, {14680064, -0xee00000}, {27262976, -0x1e000000},
      {27262976, -0x20000000}, {14680064, -0xe00000},  {18874368, -0x22000000},
      {14680064, -0x20e00000}, {14680064, 0x3200000},  {39845888, -0x26000000},
      {20971520, -0x23a00000}, {14680064, -0x28000000}, {14680064, -0x27200000},
  };
  DeviceMemory device;
  std::uint64_t first = 0;
  for (const auto& segment : kRecorded) {
    const auto address = device.Malloc(segment.size, 0);
    REQUIRE(address.has_value());
    if (first == 0) first = *address;
    CHECK(static_cast<std::int64_t>(*address - first) == segment.offset);
  }
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
