// Random requests under random settings; what must hold always is checked by
// Allocator::CheckInvariants (no overlap, blocks tile segments, sums equal the
// statistics, the cache holds the free blocks in order) and below.
//
// MEMMODEL_PROPERTY_EVENTS sets how many events are made (default 200000).
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "memmodel/allocator.h"

namespace memmodel {
namespace {

AllocatorSettings RandomSettings(std::mt19937_64* random) {
  const auto one_in = [random](std::uint64_t n) { return (*random)() % n == 0; };
  AllocatorSettings s;
  if (one_in(4)) {
    s.large_segment_size = static_cast<Bytes>(11 + (*random)() % 60) * kMiB;
    s.max_non_split_rounding = s.large_segment_size;
  }
  if (one_in(2)) s.max_split_size = s.large_segment_size + static_cast<Bytes>((*random)() % 80) * kMiB;
  if (one_in(3)) s.max_non_split_rounding += static_cast<Bytes>((*random)() % 80) * kMiB;
  if (one_in(2)) s.garbage_collection_threshold = static_cast<double>((*random)() % 99 + 1) / 100;
  if (one_in(2)) {
    for (std::int32_t& divisions : s.roundup_power2_divisions) divisions = 1 << ((*random)() % 10);
  }
  s.expandable_segments = one_in(2);
  return s;
}

Bytes RandomSize(std::mt19937_64* random) {
  const Bytes usual[] = {1, 512, 4096, 1048576, 1048577, 10485759, 10485760, 20971520, 52428800};
  if ((*random)() % 3 == 0) return usual[(*random)() % std::size(usual)];
  return static_cast<Bytes>((*random)() >> ((*random)() % 27 + 37)) + 1;  // up to 2^27
}

struct Held {
  BlockId block;
  Bytes requested;
  bool pending;
};

void Check(const Allocator& allocator, const std::vector<Held>& held, Bytes limit) {
  const std::string problem = allocator.CheckInvariants();
  REQUIRE_MESSAGE(problem.empty(), problem);
  Bytes requested = 0;
  Bytes allocated = 0;
  for (const Held& h : held) {
    requested += h.requested;
    if (!h.pending) allocated += allocator.Size(h.block);
    REQUIRE(allocator.Size(h.block) >= h.requested);
  }
  const AllocatorStatistics s = allocator.Statistics();
  REQUIRE(s.requested_bytes.all.current == requested);
  REQUIRE(s.allocated_bytes.all.current == allocated);
  REQUIRE(s.reserved_bytes.all.peak <= limit);
  for (const PoolStatistic* p : {&s.allocation, &s.allocated_bytes, &s.active, &s.active_bytes,
                                 &s.reserved_bytes, &s.segment, &s.inactive_split_bytes}) {
    REQUIRE(p->all.current == p->small_pool.current + p->large_pool.current);
    REQUIRE(p->all.current == p->all.allocated - p->all.freed);
    REQUIRE(p->all.peak >= p->all.current);
    REQUIRE(p->small_pool.current >= 0);
    REQUIRE(p->large_pool.current >= 0);
  }
}

// One allocator from birth to the last release. Returns the events made.
std::int64_t Life(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Allocator::Options options;
  options.settings = RandomSettings(&random);
  options.total_bytes = Bytes{8} << 30;
  Bytes limit = AllocatorSettings::kNoLimit;
  if (random() % 3 != 0) {
    options.limit_bytes = limit = static_cast<Bytes>(random() % 2000 + 50) * kMiB;
  }
  const Bytes capacity =
      random() % 2 == 0 ? options.total_bytes : static_cast<Bytes>(random() % 2000 + 50) * kMiB;
  // In expandable segments the limit is tested before the request is rounded up
  // to pages (DeviceCachingAllocator::alloc_block).
  if (options.limit_bytes && options.settings.expandable_segments) {
    limit += options.settings.large_segment_size;
  }
  DeviceMemory device(capacity);
  Allocator allocator(options, &device);
  const bool pools = random() % 4 == 0;
  const PoolId pool = pools ? allocator.CreatePool() : PoolId::kDefault;
  const int streams = static_cast<int>(random() % 3) + 1;
  const std::size_t most_held = random() % 400 + 1;
  std::vector<Held> held;
  std::int64_t waited = 0;

  const std::int64_t events = 4000;
  for (std::int64_t i = 0; i < events; ++i) {
    const std::uint64_t kind = random() % 1000;
    if (kind < 4) {
      allocator.EmptyCache();
    } else if (kind < 8 && pools) {
      random() % 2 == 0 ? allocator.BeginAllocateToPool(pool) : allocator.EndAllocateToPool();
    } else if (held.size() < most_held && kind < 520) {
      const Bytes size = RandomSize(&random);
      const BlockId block = allocator.Malloc(size, static_cast<int>(random() % streams));
      if (block != BlockId::kNone) held.push_back({block, size, false});
    } else if (!held.empty()) {
      const std::size_t at = random() % held.size();
      if (held[at].pending) {
        allocator.CompleteFree(held[at].block);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        if (kind > 950) allocator.RecordStream(held[at].block, streams);
        allocator.Free(held[at].block);
        if (kind > 950) {
          held[at].pending = true;
        } else {
          held[at] = held.back();
          held.pop_back();
        }
      }
    }
    // The allocator has waited for all streams: nothing is pending any more.
    if (const std::int64_t now = allocator.Statistics().num_sync_all_streams; now != waited) {
      waited = now;
      std::erase_if(held, [](const Held& h) { return h.pending; });
    }
    if (i % 128 == 0) Check(allocator, held, limit);
  }
  Check(allocator, held, limit);
  for (const Held& h : held) h.pending ? allocator.CompleteFree(h.block) : allocator.Free(h.block);
  allocator.EndAllocateToPool();
  const AllocatorStatistics s = allocator.Statistics();
  REQUIRE(s.active_bytes.all.current == 0);
  REQUIRE(s.requested_bytes.all.current == 0);
  if (pools) allocator.ReleasePool(pool);
  allocator.EmptyCache();
  REQUIRE(allocator.reserved_bytes() == 0);
  REQUIRE(allocator.Snapshot().empty());
  REQUIRE(device.free_bytes() == capacity);
  return events;
}

TEST_CASE("invariants hold under random requests and settings") {
  const char* wanted = std::getenv("MEMMODEL_PROPERTY_EVENTS");
  const std::int64_t target = wanted != nullptr ? std::atoll(wanted) : 200000;
  std::int64_t done = 0;
  for (std::uint64_t seed = 1; done < target; ++seed) {
    CAPTURE(seed);
    done += Life(seed);
  }
}

}  // namespace
}  // namespace memmodel
