// The options of PyTorch's CUDA caching allocator, and the text form that
// PYTORCH_ALLOC_CONF gives them.
//
// Mirrors torch 2.11: c10/core/AllocatorConfig.{h,cpp} and
// c10/cuda/CUDAAllocatorConfig.{h,cpp}.
#ifndef MEMMODEL_ALLOCATOR_SETTINGS_H_
#define MEMMODEL_ALLOCATOR_SETTINGS_H_

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"

namespace memmodel {

struct AllocatorSettings {
  // The version of torch whose rules these settings and the Allocator follow.
  static constexpr std::string_view kTorchVersion = "2.11";

  static constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

  // Requests above 1 MiB and below 10 MiB are cut from segments of this size;
  // also the page of expandable segments in the large pool.
  // (large_segment_size_mb, at least 11; new in torch 2.11)
  Bytes large_segment_size = 20 * kMiB;

  // Blocks of this size and above are never split, and serve only requests of
  // this size and above. Default: every block may be split.
  // (max_split_size_mb, not below the large segment size)
  Bytes max_split_size = kNoLimit;

  // How much larger than the request an unsplittable block may be and still be
  // taken. Default: the large segment size. (max_non_split_rounding_mb)
  Bytes max_non_split_rounding = 20 * kMiB;

  // Above this share of the allocator's limit, cached blocks that were not used
  // for long are returned before a new segment is taken. Acts only when a limit
  // is set. Default 0: never. (garbage_collection_threshold, in (0, 1))
  double garbage_collection_threshold = 0;

  // Into how many parts each power of two is divided when a request is rounded
  // up: entry i is for sizes of 2^i to 2^(i+1) MiB, the first also for all
  // below, the last for all above. 0 and 1: multiples of 512 bytes, the default.
  // (roundup_power2_divisions, one number or a list such as [256:1,512:2,>:4])
  std::array<std::int32_t, 16> roundup_power2_divisions{};

  // One growing address range for each stream and pool in place of many
  // segments. (expandable_segments)
  bool expandable_segments = false;

  // Share of the device's memory that the allocator may reserve; 1: no limit.
  // (per_process_memory_fraction, as torch.cuda.set_per_process_memory_fraction)
  double per_process_memory_fraction = 1.0;

  // False, with a reason that names field, value and rule, if PyTorch would not
  // run with these values.
  [[nodiscard]] bool IsValid(std::string* reason) const;
};

// The size of the block that a request of `size` bytes needs: a multiple of 512,
// or of a division of its power of two. (A block may be larger by a rest that is
// not worth a split.) Requires 0 < size <= 2^50.
Bytes RoundRequest(const AllocatorSettings& settings, Bytes size);

// Keys that ParseAllocatorSettings takes. Those that act on pinned host memory
// or locking are accepted and have no effect on device memory.
const std::vector<std::string_view>& AllocatorSettingKeys();

// Parses "key:value,key:[a:b,c:d]" as torch does: spaces are ignored,
// large_segment_size_mb is applied before everything else, otherwise the later
// of two equal keys wins. Stricter than torch in one respect: a wrong separator,
// which torch overlooks, is an error. Unknown keys are refused with the list of
// known ones, and so is backend:cudaMallocAsync, which is another allocator.
Result<AllocatorSettings> ParseAllocatorSettings(std::string_view conf);

// The text that torch would take from the environment: PYTORCH_CUDA_ALLOC_CONF
// if set, else PYTORCH_ALLOC_CONF, else "".
std::string AllocatorConfFromEnvironment();

}  // namespace memmodel

#endif  // MEMMODEL_ALLOCATOR_SETTINGS_H_
