#include <doctest/doctest.h>

#include "memmodel/allocator.h"

namespace memmodel {
namespace {

struct Fixture {
  explicit Fixture(const char* conf = "expandable_segments:True",
                   Bytes capacity = AllocatorSettings::kNoLimit)
      : device(capacity), allocator(Options(conf), &device) {}
  static Allocator::Options Options(const char* conf) {
    Allocator::Options options;
    options.settings = *ParseAllocatorSettings(conf);
    return options;
  }
  DeviceMemory device;
  Allocator allocator;
};

TEST_CASE("pages of 2 MiB and 20 MiB are mapped as they are needed") {
  Fixture f;
  const BlockId a = f.allocator.Malloc(14 * kMiB);
  CHECK(f.allocator.reserved_bytes() == 20 * kMiB);
  // The example of src/simulate/expandable.cc.
  const BlockId b = f.allocator.Malloc(25 * kMiB);
  CHECK(f.allocator.reserved_bytes() == 40 * kMiB);
  CHECK(f.allocator.Address(b) == f.allocator.Address(a) + 14 * kMiB);
  f.allocator.Malloc(512);
  CHECK(f.allocator.reserved_bytes() == 42 * kMiB);
  const AllocatorStatistics s = f.allocator.Statistics();
  CHECK(s.segment.all.current == 0);
  CHECK(s.inactive_split_bytes.all.current == 0);
  CHECK(s.num_device_alloc == 3);
  const std::vector<SegmentInfo> segments = f.allocator.Snapshot();
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].is_expandable);
}

TEST_CASE("blocks split down to 512 bytes") {
  Fixture f;
  const BlockId a = f.allocator.Malloc(20 * kMiB - 512);
  CHECK(f.allocator.Size(a) == 20 * kMiB - 512);
}

TEST_CASE("empty_cache takes the whole pages out of free blocks") {
  Fixture f;
  const BlockId a = f.allocator.Malloc(30 * kMiB);
  const BlockId b = f.allocator.Malloc(30 * kMiB);
  const BlockId c = f.allocator.Malloc(5 * kMiB);
  CHECK(f.allocator.reserved_bytes() == 80 * kMiB);
  f.allocator.Free(b);  // [30, 60): the page [40, 60)
  f.allocator.EmptyCache();
  CHECK(f.allocator.reserved_bytes() == 60 * kMiB);
  CHECK(f.allocator.Snapshot().size() == 2);
  CHECK(f.allocator.CheckInvariants().empty());
  // 10 free before the hole and 20 unmapped: at the old address again.
  const std::uint64_t old_address = f.allocator.Address(a) + 30 * kMiB;
  const BlockId d = f.allocator.Malloc(28 * kMiB);
  CHECK(f.allocator.Address(d) == old_address);
  CHECK(f.allocator.reserved_bytes() == 80 * kMiB);
  for (const BlockId block : {a, c, d}) f.allocator.Free(block);
  f.allocator.EmptyCache();
  CHECK(f.allocator.reserved_bytes() == 0);
  CHECK(f.allocator.Snapshot().empty());
}

TEST_CASE("pages mapped before the device was full stay") {
  Fixture f("expandable_segments:True", 50 * kMiB);
  const BlockId a = f.allocator.Malloc(10 * kMiB);
  REQUIRE(a != BlockId::kNone);
  CHECK(f.allocator.Malloc(60 * kMiB) == BlockId::kNone);
  CHECK(f.allocator.reserved_bytes() == 20 * kMiB);
  CHECK(f.allocator.Statistics().num_ooms == 1);
  CHECK(f.allocator.Malloc(30 * kMiB) != BlockId::kNone);
  CHECK(f.allocator.reserved_bytes() == 40 * kMiB);
  CHECK(f.allocator.CheckInvariants().empty());
}

TEST_CASE("the large pool's page is the large segment size") {
  Fixture f("expandable_segments:True,large_segment_size_mb:32");
  f.allocator.Malloc(3 * kMiB);
  CHECK(f.allocator.reserved_bytes() == 32 * kMiB);
}

}  // namespace
}  // namespace memmodel
