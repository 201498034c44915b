// Reductions of known values, as NCCL does them element by element.
#ifndef MEMMODEL_SRC_VGPU_NCCL_REDUCE_H_
#define MEMMODEL_SRC_VGPU_NCCL_REDUCE_H_

#include <optional>
#include <string>
#include <vector>

namespace memmodel::vgpu {

// Reduces equally long contributions of the ranks. Nothing if the operation or
// the type (8-bit floating point) is not followed, or the lengths differ.
std::optional<std::string> Reduce(const std::vector<std::string>& ranks, int type, int operation);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_NCCL_REDUCE_H_
