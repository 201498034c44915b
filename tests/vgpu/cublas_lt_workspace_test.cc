#include "src/vgpu/cublas_lt_workspace.h"

#include <doctest/doctest.h>

namespace memmodel::vgpu {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kMultiprocessors = 132;

// Rows that lie side by side, D of the type of A and B.
Matmul Packed(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch, bool transpose_a,
              bool transpose_b, int bytes) {
  Matmul matmul;
  matmul.m = m;
  matmul.n = n;
  matmul.k = k;
  matmul.batch = batch;
  matmul.transpose_a = transpose_a;
  matmul.transpose_b = transpose_b;
  matmul.element_bytes = bytes;
  matmul.row_bytes_a = (transpose_a ? k : m) * bytes;
  matmul.row_bytes_b = (transpose_b ? n : k) * bytes;
  matmul.row_bytes_d = m * bytes;
  return matmul;
}

// What cuDNN 9.19 answered for 1x1 convolutions on an NVIDIA H200, less the 256
// bytes that it adds to align the workspace.
TEST_CASE("workspaces of matrix products measured on an H200") {
  const auto of = [](const Matmul& matmul, std::int64_t limit) {
    return MatmulWorkspace(matmul, limit * kMiB, kMultiprocessors);
  };
  // Weight gradients in channels_last, float and half precision.
  CHECK(of(Packed(64, 537, 2304, 1, false, true, 4), 128) == 4948992);
  CHECK(of(Packed(112, 128, 3136, 1, false, true, 4), 128) == 2809856);
  CHECK(of(Packed(672, 88, 4416, 1, false, true, 2), 128) == 709648);
  CHECK(of(Packed(88, 528, 6272, 1, false, true, 2), 4) == 811024);
  CHECK(of(Packed(24, 122, 25088, 1, false, true, 2), 128) == 1534272);  // rows not aligned
  CHECK(of(Packed(120, 40, 784, 1, false, true, 2), 4) == 0);
  // Forward in channels_last.
  CHECK(of(Packed(960, 16, 768, 1, true, false, 4), 128) == 737280);
  CHECK(of(Packed(192, 49, 576, 1, true, false, 4), 128) == 338688);
  // One product an image: enough tiles, too few tiles, rows not aligned.
  CHECK(of(Packed(1600, 768, 16, 6, false, false, 2), 128) == 16);
  CHECK(of(Packed(5184, 240, 384, 48, false, true, 2), 128) == 16);
  CHECK(of(Packed(81, 96, 384, 32, false, false, 4), 4) == 0);
  CHECK(of(Packed(294, 128, 4, 29, false, true, 4), 4) == 0);
}

TEST_CASE("no algorithm needs more than the limit") {
  CHECK(MatmulWorkspace(Packed(64, 537, 2304, 1, false, true, 4), 0, kMultiprocessors) == 0);
  CHECK(MatmulWorkspace(Packed(64, 537, 2304, 1, false, true, 4), 4948992 - 1, kMultiprocessors) ==
        0);
}

}  // namespace
}  // namespace memmodel::vgpu
