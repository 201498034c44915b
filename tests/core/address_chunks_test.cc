#include "src/core/address_chunks.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace memmodel {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kEnd = 4096 * kMiB;

TEST_CASE("an empty chunk is given back, a chunk with something in it is filled") {
  AddressChunks chunks(32 * kMiB, kEnd);
  const std::uint64_t a = chunks.Allocate(40 * kMiB);  // a chunk of 64 MiB
  CHECK(a == kEnd - 64 * kMiB);
  const std::uint64_t b = chunks.Allocate(20 * kMiB);  // the rest of it
  CHECK(b == a + 40 * kMiB);
  chunks.Free(a, 40 * kMiB);
  CHECK(chunks.Allocate(40 * kMiB) == a);
  chunks.Free(a, 40 * kMiB);
  chunks.Free(b, 20 * kMiB);
  CHECK(chunks.Allocate(70 * kMiB) == kEnd - 96 * kMiB);
}

// ResNet-50 with garbage_collection_threshold under a cap, on an NVIDIA H200 (driver
// 580.159, torch 2.11.0): segments given back by a retry, and where the next ones lay, in
// MiB above 0x7f59'e600'0000. Chunks of 32 MiB were at every multiple of 32 up to 512.
TEST_CASE("a new chunk lies at the end of the highest gap with 32 MiB to spare") {
  constexpr std::uint64_t kBase = kEnd - 512 * kMiB;
  AddressChunks chunks(32 * kMiB, kEnd);
  for (std::uint64_t at = 512; at > 0; at -= 32) {
    CHECK(chunks.Allocate(20 * kMiB) == kBase + (at - 32) * kMiB);
  }
  const auto free = [&](std::uint64_t at) { chunks.Free(kBase + at * kMiB, 20 * kMiB); };
  // [32, 64), and [128, 320): 7f59e8000000, and 7f59ee000000 to 7f59fa000000.
  for (const std::uint64_t at : {32, 128, 160, 192, 224, 256, 288}) free(at);
  CHECK(chunks.Allocate(26 * kMiB) == kBase + 288 * kMiB);  // 7f59f8000000
  CHECK(chunks.Allocate(38 * kMiB) == kBase + 224 * kMiB);  // 7f59f4000000
  chunks.Free(kBase + 224 * kMiB, 38 * kMiB);
  CHECK(chunks.Allocate(42 * kMiB) == kBase + 224 * kMiB);
  // [32, 64) and [128, 224) are left. The latter gives two more; what then is left just
  // holds a chunk and is passed over.
  CHECK(chunks.Allocate(30 * kMiB) == kBase + 192 * kMiB);
  CHECK(chunks.Allocate(30 * kMiB) == kBase + 160 * kMiB);
  CHECK(chunks.Allocate(30 * kMiB) == kBase - 32 * kMiB);
}

// Segments of a ResNet-50 step on an H200 (driver 580.159): addresses relative to
// the first of these, as recorded.
TEST_CASE("addresses are those that the driver gave") {
  const struct {
    std::uint64_t size;
    std::int64_t offset;
  } kRecorded[] = {
      {52428800, 0},           {52428800, -0x4000000},  {27262976, -0x6000000},
      {27262976, -0x8000000},  {33554432, -0xa000000},  {27262976, -0xc000000},
      {27262976, -0xe000000},  {52428800, -0x12000000}, {27262976, -0x14000000},
      {20971520, -0x16000000}, {27262976, -0x18000000}, {27262976, -0x1a000000},
      {20971520, -0x1c000000}, {14680064, -0xee00000},  {27262976, -0x1e000000},
      {27262976, -0x20000000}, {14680064, -0xe00000},   {18874368, -0x22000000},
      {14680064, -0x20e00000}, {14680064, 0x3200000},   {39845888, -0x26000000},
      {20971520, -0x23a00000}, {14680064, -0x28000000}, {14680064, -0x27200000},
  };
  AddressChunks chunks(32 * kMiB, kEnd);
  std::uint64_t first = 0;
  for (const auto& segment : kRecorded) {
    const std::uint64_t address =
        chunks.Allocate((segment.size + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
    if (first == 0) first = address;
    CHECK(static_cast<std::int64_t>(address - first) == segment.offset);
  }
}

TEST_CASE("gaps join their neighbours") {
  Gaps gaps;
  gaps.Add(100, 10);
  gaps.Add(120, 10);
  CHECK(gaps.TakeLowest(15) == 0);
  gaps.Add(110, 10);
  CHECK(gaps.TakeLowest(30) == 100);
  gaps.Add(100, 30);
  CHECK(gaps.TakeAt(110, 10));
  CHECK_FALSE(gaps.TakeAt(115, 10));
  CHECK(gaps.TakeHighest(10, 4) == 120);
  CHECK(gaps.TakeHighest(10, 1) == 100);
}

TEST_CASE("the end of the highest gap that has enough to spare") {
  Gaps gaps;
  gaps.Add(100, 60);
  gaps.Add(200, 30);
  CHECK(gaps.TakeTop(20, 20) == 140);  // [200, 230) has 10 to spare
  CHECK(gaps.TakeTop(20, 10) == 210);
  CHECK(gaps.TakeTop(41, 0) == 0);
}

}  // namespace
}  // namespace memmodel
