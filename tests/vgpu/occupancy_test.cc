#include "src/vgpu/occupancy.h"

#include <doctest/doctest.h>

#include <string>

namespace memmodel::vgpu {
namespace {

DeviceSpec Device(const char* name) {
  Result<DeviceSpec> spec =
      ReadDeviceFile(std::string(MEMMODEL_SOURCE_DIR) + "/data/devices/" + name + ".json");
  REQUIRE(spec.ok());
  return *spec;
}

// By hand from the CUDA C++ Programming Guide's figures for compute capability
// 9.0: 2048 threads, 32 blocks, 65536 registers in units of 256 a warp, 228 KiB of
// shared memory of which each block takes 1 KiB more than it asks for.
TEST_CASE("blocks on an SM of compute capability 9.0") {
  const DeviceSpec spec = Device("h200");
  CHECK(BlocksPerSm(spec, {.threads = 1024, .registers = 32}) == 2);
  CHECK(BlocksPerSm(spec, {.threads = 32, .registers = 32}) == 32);     // most blocks
  CHECK(BlocksPerSm(spec, {.threads = 33, .registers = 32}) == 32);     // 2 warps
  CHECK(BlocksPerSm(spec, {.threads = 256, .registers = 64}) == 4);     // 65536 / (64 * 256)
  CHECK(BlocksPerSm(spec, {.threads = 256, .registers = 65}) == 3);     // 72 a thread
  CHECK(BlocksPerSm(spec, {.threads = 1024, .registers = 65}) == 0);    // 73728 registers
  CHECK(BlocksPerSm(spec, {.threads = 128, .registers = 32, .shared_bytes = 100 * 1024}) == 2);
  CHECK(BlocksPerSm(spec, {.threads = 128, .registers = 32, .shared_bytes = 227 * 1024}) == 1);
  CHECK(BlocksPerSm(spec, {.threads = 128, .registers = 32, .shared_bytes = 228 * 1024}) == 0);
  CHECK(BlocksPerSm(spec, {.threads = 1025, .registers = 32}) == 0);
  CHECK(BlocksPerSm(spec, {.threads = 0, .registers = 32}) == 0);
}

}  // namespace
}  // namespace memmodel::vgpu
