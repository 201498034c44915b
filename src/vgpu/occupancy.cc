#include "src/vgpu/occupancy.h"

#include <algorithm>

namespace memmodel::vgpu {
namespace {

// Since compute capability 3.x registers are given to warps in units of 256, and
// an SM has four partitions with their own registers; since 8.0 shared memory
// comes in units of 128 bytes, before in 256.
constexpr std::int64_t kRegisterUnit = 256;
constexpr std::int64_t kPartitions = 4;

constexpr std::int64_t RoundUp(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

int BlocksPerSm(const DeviceSpec& spec, const BlockResources& block) {
  const std::int64_t warp = spec.Get("warpSize");
  if (block.threads < 1 || block.threads > spec.Get("maxThreadsPerBlock")) return 0;
  const std::int64_t warps = (block.threads + warp - 1) / warp;
  std::int64_t blocks = std::min(spec.Get("maxBlocksPerMultiProcessor"),
                                 spec.Get("maxThreadsPerMultiProcessor") / warp / warps);
  if (block.registers > 0) {
    const std::int64_t a_warp = RoundUp(block.registers * warp, kRegisterUnit);
    if (a_warp * RoundUp(warps, kPartitions) > spec.Get("regsPerBlock")) return 0;
    const std::int64_t warps_a_partition =
        spec.Get("regsPerMultiprocessor") / kPartitions / a_warp;
    blocks = std::min(blocks, warps_a_partition * kPartitions / warps);
  }
  const std::int64_t unit = spec.ComputeCapability() >= 80 ? 128 : 256;
  const std::int64_t shared = RoundUp(
      static_cast<std::int64_t>(block.shared_bytes) + spec.Get("reservedSharedMemPerBlock"), unit);
  if (shared > 0) blocks = std::min(blocks, spec.Get("sharedMemPerMultiprocessor") / shared);
  return static_cast<int>(blocks);
}

}  // namespace memmodel::vgpu
