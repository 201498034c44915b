#include "src/vgpu/address_space.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The addresses of a training step of a ResNet-50 (batch 16, fp32, SGD) on an
// NVIDIA H200, driver 580.159, torch 2.11.0, in MiB above the first segment: the
// 20 segments of loading and the start of the first step.
TEST_CASE("segments of a real process lie where the driver put them") {
  MallocPlacer placer(0);
  const std::uint64_t first = placer.Allocate(2 * kMiB);
  struct Segment {
    std::uint64_t mib;
    std::int64_t offset_mib;
  };
  const std::vector<Segment> segments = {
      {2, 74},    {2, 76},    {2, 78},    {20, -446}, {2, -426},  {2, -424},
      {2, -422},  {2, -420},  {2, -418},  {20, -478}, {20, -510}, {20, -542},
  };
  for (const Segment& segment : segments) {
    const std::uint64_t address = placer.Allocate(segment.mib * kMiB);
    CHECK(static_cast<std::int64_t>(address - first) / static_cast<std::int64_t>(kMiB) ==
          segment.offset_mib);
  }
}

// Free address space of an NVIDIA H200 (driver 580.159) after the first kernel,
// as allocations of 2 MiB found it, in MiB above the first segment: [-420, 0) and
// [76, 98), then new chunks from -958 down.
TEST_CASE("the first kernel moves the driver's own memory") {
  MallocPlacer placer(0);
  const std::uint64_t first = placer.Allocate(2 * kMiB);
  placer.FirstKernel();
  std::vector<std::int64_t> found;
  for (int i = 0; i < 210 + 11 + 1; ++i) {
    found.push_back(static_cast<std::int64_t>(placer.Allocate(2 * kMiB) - first) /
                    static_cast<std::int64_t>(kMiB));
  }
  // The chunk [-446, -414) is newer than the one of 416 MiB: its rest comes first.
  CHECK(found[0] == -420);
  CHECK(found[2] == -416);
  CHECK(found[3] == -414);
  CHECK(found[209] == -2);
  CHECK(found[210] == 76);
  CHECK(found[220] == 96);
  CHECK(found[221] == -958);
}

TEST_CASE("devices do not share addresses") {
  MallocPlacer one(0);
  MallocPlacer last(kMostDevices - 1);
  const std::uint64_t a = one.Allocate(2 * kMiB);
  const std::uint64_t b = last.Allocate(2 * kMiB);
  CHECK(a != b);
  CHECK(OnDevice(a));
  CHECK(OnDevice(b));
}

TEST_CASE("a request beyond the address space finds none") {
  MallocPlacer placer(0);
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
