#include "src/core/context_addresses.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace memmodel {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kBegin = std::uint64_t{1} << 40;
constexpr std::uint64_t kEnd = std::uint64_t{2} << 40;

// The addresses of a training step of a ResNet-50 (batch 16, fp32, SGD) on an
// NVIDIA H200, driver 580.159, torch 2.11.0, in MiB above the first segment: the
// 20 segments of loading and the start of the first step.
TEST_CASE("segments of a real process lie where the driver put them") {
  ContextAddresses addresses(kBegin, kEnd);
  const std::uint64_t first = addresses.Allocate(2 * kMiB);
  struct Segment {
    std::uint64_t mib;
    std::int64_t offset_mib;
  };
  const std::vector<Segment> segments = {
      {2, 74},   {2, 76},   {2, 78},   {20, -446}, {2, -426},  {2, -424},
      {2, -422}, {2, -420}, {2, -418}, {20, -478}, {20, -510}, {20, -542},
  };
  for (const Segment& segment : segments) {
    const std::uint64_t address = addresses.Allocate(segment.mib * kMiB);
    CHECK(static_cast<std::int64_t>(address - first) / static_cast<std::int64_t>(kMiB) ==
          segment.offset_mib);
  }
}

// Free address space of an NVIDIA H200 (driver 580.159) after the first kernel,
// as allocations of 2 MiB found it, in MiB above the first segment: [-420, 0) and
// [76, 98), then new chunks from -958 down.
TEST_CASE("the first kernel moves the driver's own memory") {
  ContextAddresses addresses(kBegin, kEnd);
  const std::uint64_t first = addresses.Allocate(2 * kMiB);
  addresses.FirstKernel();
  std::vector<std::int64_t> found;
  for (int i = 0; i < 210 + 11 + 1; ++i) {
    found.push_back(static_cast<std::int64_t>(addresses.Allocate(2 * kMiB) - first) /
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

// By the sizes in the .cc, in MiB above the first segment. 64 MiB fill a chunk below all;
// 2 MiB of the first handle lie in the gap of 24 MiB, at 74.
TEST_CASE("only the first cuBLAS handle takes 2 MiB beside its 64") {
  ContextAddresses addresses(kBegin, kEnd);
  const std::uint64_t first = addresses.Allocate(2 * kMiB);
  addresses.CublasHandle();
  CHECK(addresses.Allocate(2 * kMiB) == first + 76 * kMiB);
  addresses.CublasHandle();
  CHECK(addresses.Allocate(2 * kMiB) == first + 78 * kMiB);
  // Below the 416 MiB lie two chunks of 64 MiB.
  CHECK(addresses.Allocate(32 * kMiB) == first - (414 + 2 * 64 + 32) * kMiB);
}

TEST_CASE("each cuDNN handle takes 8 and 2 MiB") {
  ContextAddresses addresses(kBegin, kEnd);
  const std::uint64_t first = addresses.Allocate(2 * kMiB);
  addresses.CudnnHandle();
  CHECK(addresses.Allocate(2 * kMiB) == first + 84 * kMiB);
}

TEST_CASE("only the first kernel moves anything") {
  ContextAddresses addresses(kBegin, kEnd);
  addresses.FirstKernel();
  const std::uint64_t before = addresses.Allocate(2 * kMiB);
  addresses.FirstKernel();
  CHECK(addresses.Allocate(2 * kMiB) == before + 2 * kMiB);
}

}  // namespace
}  // namespace memmodel
