#include "src/vgpu/memory_pool.h"

#include <doctest/doctest.h>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_CASE("a pool grows in steps of 32 MiB and shrinks when it is trimmed") {
  DeviceMemory memory;
  memory.AddDevice(64 * kMiB, 0, {});
  MemoryPool pool(0);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  CHECK(pool.Allocate(&memory, 100, &a) == MemoryOutcome::kOk);
  CHECK(pool.Allocate(&memory, 100, &b) == MemoryOutcome::kOk);
  CHECK(b - a == 512);
  CHECK(pool.used() == 1024);
  CHECK(pool.reserved() == 32 * kMiB);
  CHECK(memory.used(0) == 32 * kMiB);
  std::uint64_t c = 0;
  CHECK(pool.Allocate(&memory, 33 * kMiB, &c) == MemoryOutcome::kOutOfMemory);  // 32 + 64 > 64
  CHECK(pool.Allocate(&memory, 32 * kMiB, &c) == MemoryOutcome::kOk);
  CHECK(pool.reserved_high() == 64 * kMiB);
  CHECK(pool.Free(c) == MemoryOutcome::kOk);
  CHECK(pool.Free(c) == MemoryOutcome::kInvalid);
  pool.TrimTo(&memory, 64 * kMiB);
  CHECK(pool.reserved() == 64 * kMiB);
  pool.TrimTo(&memory, 0);
  CHECK(pool.reserved() == 32 * kMiB);  // the chunk with a and b stays
  CHECK(pool.Free(a) == MemoryOutcome::kOk);
  CHECK(pool.Free(b) == MemoryOutcome::kOk);
  pool.TrimTo(&memory, 0);
  CHECK(memory.used(0) == 0);
  CHECK(pool.used_high() == 32 * kMiB + 1024);
}

}  // namespace
}  // namespace memmodel::vgpu
