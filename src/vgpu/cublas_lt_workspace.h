// The workspace that cublasLt's algorithms ask for on Hopper GPUs.
#ifndef MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_
#define MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_

#include <cstdint>

namespace memmodel::vgpu {

// D[m][n] = A[m][k] * B[k][n], column by column, `batch` times; accumulated in
// float, with TF32 where A and B are float.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  int element_bytes = 0;                                           // of A and B: 4 or 2
  std::int64_t row_bytes_a = 0, row_bytes_b = 0, row_bytes_d = 0;  // leading dimensions
};

// The most that one of the algorithms needs that the heuristic offers under
// `limit`, in bytes, on a GPU of compute capability 9.0 with so many
// multiprocessors. A rule inferred from answers measured on an NVIDIA H200, right in most
// cases and not in all (docs/cudnn.md).
std::int64_t MatmulWorkspace(const Matmul& matmul, std::int64_t limit,
                             std::int64_t multiprocessors);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_
