#include "src/vgpu/device_memory.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr MemoryOutcome kOk = MemoryOutcome::kOk;
constexpr MemoryOutcome kOutOfMemory = MemoryOutcome::kOutOfMemory;
constexpr MemoryOutcome kInvalid = MemoryOutcome::kInvalid;

TEST_CASE("a device gives what context and used memory leave, in whole pages") {
  DeviceMemory memory;
  memory.AddDevice(10 * kMiB, 3 * kMiB, {});
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  CHECK(memory.Allocate(0, 2 * kMiB + 1, &a) == kOk);  // 4 MiB
  CHECK(memory.used(0) == 4 * kMiB);
  CHECK(memory.Allocate(0, 2 * kMiB + 1, &b) == kOutOfMemory);  // 3 + 4 + 4 > 10
  CHECK(memory.Allocate(0, 2 * kMiB, &b) == kOk);
  CHECK(memory.used(0) == 6 * kMiB);
  CHECK(memory.Allocate(0, 1, &b) == kOutOfMemory);  // 1 MiB is left, a page is 2
  CHECK(memory.Free(a) == kOk);
  CHECK(memory.Free(a) == kInvalid);
  CHECK(memory.Allocate(0, 4 * kMiB, &b) == kOk);
}

TEST_CASE("a total of 0 is no limit, and absurd sizes fail") {
  DeviceMemory memory;
  memory.AddDevice(0, 0, {});
  std::uint64_t address = 0;
  CHECK(memory.Allocate(0, std::uint64_t{400} << 30, &address) == kOk);
  CHECK(memory.Allocate(0, ~std::uint64_t{0}, &address) == kOutOfMemory);
  CHECK(memory.Allocate(0, 0, &address) == kInvalid);
  CHECK(memory.used(0) == std::uint64_t{400} << 30);
}

TEST_CASE("devices have their own capacity, and an address its device") {
  DeviceMemory memory;
  memory.AddDevice(4 * kMiB, 0, {});
  memory.AddDevice(4 * kMiB, 0, {});
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  CHECK(memory.Allocate(0, 4 * kMiB, &a) == kOk);
  CHECK(memory.Allocate(1, 4 * kMiB, &b) == kOk);
  CHECK(memory.Find(a + 4 * kMiB - 1)->device == 0);
  CHECK(memory.Find(b)->device == 1);
  CHECK(memory.Find(b)->bytes == 4 * kMiB);
  CHECK_FALSE(memory.Find(a - 1).has_value());
}

// Context of an NVIDIA H200, driver 580.159, in MiB as NVML shows it: 518 at
// start, 610 after the first kernel, 676 with a cuBLAS handle, 684 with a cuDNN one.
TEST_CASE("the context grows with what is used") {
  const ContextCost cost = {.system_bytes = 100 * kMiB,
                            .primary_bytes = 518 * kMiB,
                            .first_kernel_bytes = 92 * kMiB,
                            .cublas_handle_bytes = 66 * kMiB,
                            .cudnn_handle_bytes = 8 * kMiB};
  DeviceMemory memory;
  memory.AddDevice(800 * kMiB, 0, cost);
  CHECK(memory.context(0) - memory.system(0) == 518 * kMiB);
  CHECK(memory.FirstKernel(0) == kOk);
  CHECK(memory.FirstKernel(0) == kOk);  // the second launch takes nothing
  CHECK(memory.context(0) - memory.system(0) == 610 * kMiB);
  CHECK(memory.CublasHandle(0) == kOk);
  CHECK(memory.CudnnHandle(0) == kOk);
  CHECK(memory.context(0) - memory.system(0) == 684 * kMiB);
  std::uint64_t address = 0;
  CHECK(memory.Allocate(0, 16 * kMiB, &address) == kOk);  // 100 + 684 + 16 = 800
  CHECK(memory.CudnnHandle(0) == kOutOfMemory);
  CHECK(memory.context(0) - memory.system(0) == 684 * kMiB);

  memory.SetCapacity(0, 800 * kMiB, 5 * kMiB);  // a fixed context
  CHECK(memory.context(0) == 5 * kMiB);
  CHECK(memory.system(0) == 0);
  CHECK(memory.CublasHandle(0) == kOk);
  CHECK(memory.context(0) == 5 * kMiB);
}

TEST_CASE("physical memory takes capacity until it is neither held nor mapped") {
  DeviceMemory memory;
  memory.AddDevice(8 * kMiB, 0, {});
  std::uint64_t space = 0;
  CHECK(memory.Reserve(64 * kMiB, 0, 0, &space) == kOk);
  CHECK(memory.used(0) == 0);
  std::uint64_t handle = 0;
  CHECK(memory.Create(0, 4 * kMiB, &handle) == kOk);
  CHECK(memory.HandleDevice(handle) == 0);
  CHECK(memory.used(0) == 4 * kMiB);
  CHECK(memory.Map(space, 4 * kMiB, handle) == kOk);
  CHECK(memory.Map(space, 4 * kMiB, handle) == kInvalid);             // mapped already
  CHECK(memory.Map(space + 2 * kMiB, 2 * kMiB, handle) == kInvalid);  // overlaps
  CHECK(memory.Find(space + kMiB)->address == space);
  CHECK(memory.Release(handle) == kOk);
  CHECK(memory.used(0) == 4 * kMiB);  // still mapped
  CHECK(memory.FreeReservation(space, 64 * kMiB) == kInvalid);
  CHECK(memory.Unmap(space, 2 * kMiB) == kInvalid);  // not a whole mapping
  CHECK(memory.Unmap(space, 4 * kMiB) == kOk);
  CHECK(memory.used(0) == 0);
  CHECK(memory.Release(handle) == kInvalid);
  CHECK(memory.FreeReservation(space, 64 * kMiB) == kOk);
  CHECK(memory.FreeReservation(space, 64 * kMiB) == kInvalid);
}

TEST_CASE("several mappings are unmapped at once if there is no gap") {
  DeviceMemory memory;
  memory.AddDevice(0, 0, {});
  std::uint64_t space = 0;
  CHECK(memory.Reserve(8 * kMiB, 0, 0, &space) == kOk);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  CHECK(memory.Create(0, 2 * kMiB, &a) == kOk);
  CHECK(memory.Create(0, 2 * kMiB, &b) == kOk);
  CHECK(memory.Map(space, 2 * kMiB, a) == kOk);
  CHECK(memory.Map(space + 4 * kMiB, 2 * kMiB, b) == kOk);
  CHECK(memory.Unmap(space, 6 * kMiB) == kInvalid);
  std::uint64_t c = 0;
  CHECK(memory.Create(0, 2 * kMiB, &c) == kOk);
  CHECK(memory.Map(space + 2 * kMiB, 2 * kMiB, c) == kOk);
  std::uint64_t again = 0;
  CHECK(memory.Retain(space + 3 * kMiB, &again) == kOk);
  CHECK(again == c);
  CHECK(memory.Unmap(space, 6 * kMiB) == kOk);
  CHECK(memory.used(0) == 6 * kMiB);  // all three handles are still held
}

TEST_CASE("mappings outside a reservation, or not in whole pages, are refused") {
  DeviceMemory memory;
  memory.AddDevice(0, 0, {});
  std::uint64_t space = 0;
  std::uint64_t handle = 0;
  CHECK(memory.Reserve(3 * kMiB, 0, 0, &space) == kInvalid);
  CHECK(memory.Reserve(2 * kMiB, 3, 0, &space) == kInvalid);
  CHECK(memory.Reserve(2 * kMiB, 0, 0, &space) == kOk);
  CHECK(memory.Create(0, kMiB, &handle) == kInvalid);
  CHECK(memory.Create(0, 4 * kMiB, &handle) == kOk);
  CHECK(memory.Map(space, 4 * kMiB, handle) == kInvalid);
  CHECK(memory.Map(space, 2 * kMiB, handle + 1) == kInvalid);
  CHECK(memory.Map(space + 4096, 2 * kMiB, handle) == kInvalid);
  CHECK(memory.Unmap(space, ~std::uint64_t{0}) == kInvalid);
}

}  // namespace
}  // namespace memmodel::vgpu
