#include <doctest/doctest.h>

#include "memmodel/allocator.h"
#include "memmodel/trace.h"

namespace memmodel {
namespace {

TEST_CASE("a device hands out its capacity in pages of 2 MiB and no more") {
  DeviceMemory device(10 * kMiB);
  const auto a = device.Malloc(2 * kMiB, 0);
  const auto b = device.Malloc(3 * kMiB, 0);
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(*b == *a + 74 * kMiB);  // as in a CUDA context
  CHECK(device.free_bytes() == 4 * kMiB);
  CHECK_FALSE(device.Malloc(5 * kMiB, 0).has_value());
  device.Free(*a, 2 * kMiB);
  CHECK(device.Malloc(2 * kMiB, 0) == a);
  device.Free(*b, 3 * kMiB);
  CHECK(device.free_bytes() == 8 * kMiB);
}

TEST_CASE("returned ranges join") {
  DeviceMemory device;
  REQUIRE(device.Malloc(2 * kMiB, 0).has_value());  // the next ones lie in one gap
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

// The first segments of a ResNet-50 on an H200 (driver 580.159), in MiB above the first
// one, as tests/core/context_addresses_test.cc has them; and where they lie after the
// first kernel.
TEST_CASE("addresses are those of a CUDA context") {
  DeviceMemory device;
  const auto first = device.Malloc(2 * kMiB, 0);
  REQUIRE(first.has_value());
  const auto offset = [&](Bytes mib) {
    const auto address = device.Malloc(mib * kMiB, 0);
    REQUIRE(address.has_value());
    return static_cast<std::int64_t>(*address - *first) / kMiB;
  };
  CHECK(offset(2) == 74);
  CHECK(offset(2) == 76);
  CHECK(offset(2) == 78);
  CHECK(offset(20) == -446);
  CHECK(offset(2) == -426);
}

TEST_CASE("occasions move later addresses and take no capacity") {
  DeviceMemory device(40 * kMiB);
  const auto first = device.Malloc(2 * kMiB, 0);
  device.Happened(ContextOccasion::kFirstKernel);
  device.Happened(ContextOccasion::kFirstKernel);
  CHECK(device.free_bytes() == 38 * kMiB);
  // As an H200 had it: tests/core/context_addresses_test.cc.
  CHECK(device.Malloc(2 * kMiB, 0) == *first - 420 * kMiB);
  device.Happened(ContextOccasion::kCublasHandle);
  device.Happened(ContextOccasion::kCudnnHandle);
  CHECK(device.free_bytes() == 36 * kMiB);
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
