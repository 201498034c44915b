#include "src/vgpu/cublas_lt_workspace.h"

#include <algorithm>

namespace memmodel::vgpu {
namespace {

// Kernels that load and store through the tensor memory accelerator and hand
// out tiles by a counter want this much for it...
constexpr std::int64_t kCounterBytes = 16;
// ... and rows that begin at multiples of 16 bytes (cuTensorMapEncodeTiled).
constexpr std::int64_t kTensorMapAlignment = 16;
constexpr std::int64_t kPartialSumBytes = 4;  // partial sums are float
// Up to this limit float products are answered as not split; some are, by a
// rule that was not found.
constexpr std::int64_t kSmallLimit = std::int64_t{4} << 20;

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t Tiles(const Matmul& matmul, std::int64_t rows, std::int64_t columns) {
  return CeilDiv(matmul.m, rows) * CeilDiv(matmul.n, columns) * matmul.batch;
}

// Into how many parts K is split so that the parts of all tiles fill `blocks`
// thread blocks, with at least `depth` of K each. Fewer than 2: not split.
std::int64_t Splits(const Matmul& matmul, std::int64_t tiles, std::int64_t blocks,
                    std::int64_t depth) {
  return std::min(blocks / tiles, matmul.k / depth);
}

// Partial sums of the whole product, two thread blocks a multiprocessor.
std::int64_t SplitKBytes(const Matmul& matmul, bool rebalanced, std::int64_t multiprocessors) {
  constexpr std::int64_t kDepth = 64;
  constexpr std::int64_t kStep = 32;  // of K that one iteration of the kernel takes
  std::int64_t splits;
  if (rebalanced) {
    // Whole iterations each; a split left without any is not there. That it
    // begins at 4 is fitted.
    splits = Splits(matmul, Tiles(matmul, 64, 64), 2 * multiprocessors, kDepth);
    if (splits < 4) return 0;
    const std::int64_t steps = CeilDiv(matmul.k, kStep);
    splits = CeilDiv(steps, CeilDiv(steps, std::min(splits, multiprocessors - 1)));
  } else {
    splits = std::min(Splits(matmul, Tiles(matmul, 128, 128), 2 * multiprocessors, kDepth),
                      multiprocessors - 1);
  }
  return splits < 2 ? 0 : splits * matmul.m * matmul.n * kPartialSumBytes;
}

// As above for half precision with aligned rows and a long K (weight
// gradients): tiles of 128 x 256, 1,280 of K each (fitted), rows rounded up to 32.
std::int64_t LongKBytes(const Matmul& matmul, std::int64_t multiprocessors) {
  const std::int64_t splits = Splits(matmul, Tiles(matmul, 128, 256), multiprocessors, 1280);
  if (splits < 2) return 0;
  return splits * CeilDiv(matmul.m, 32) * 32 * matmul.n * kPartialSumBytes + kCounterBytes;
}

std::int64_t Wanted(const Matmul& matmul, std::int64_t limit, std::int64_t multiprocessors) {
  const bool is_float = matmul.element_bytes == 4;
  const bool aligned = matmul.row_bytes_a % kTensorMapAlignment == 0 &&
                       matmul.row_bytes_b % kTensorMapAlignment == 0 &&
                       matmul.row_bytes_d % kTensorMapAlignment == 0;
  const bool sums_over_rows = matmul.transpose_b && !matmul.transpose_a;
  // Enough tiles to occupy the GPU: not split. The shares are fitted.
  const std::int64_t tiles = Tiles(matmul, 128, 128);
  const bool enough =
      is_float || matmul.batch > 1 ? 5 * tiles >= 3 * multiprocessors : tiles >= multiprocessors;
  if (enough) return aligned ? kCounterBytes : 0;
  if (matmul.batch > 1) return 0;
  const bool small_limit = limit <= kSmallLimit;
  if (is_float && small_limit) {
    // Fitted: fewer tiles of 64 x 64 than half (7/5 where K is the rows of both) of the
    // multiprocessors.
    const std::int64_t small_tiles = Tiles(matmul, 64, 64);
    const bool few = sums_over_rows ? 5 * small_tiles <= 7 * multiprocessors
                                    : 2 * small_tiles <= multiprocessors;
    return aligned && few ? kCounterBytes : 0;
  }
  if (!is_float && aligned) return sums_over_rows ? LongKBytes(matmul, multiprocessors) : 0;
  if (small_limit) return 0;
  return SplitKBytes(matmul, is_float && aligned && !sums_over_rows, multiprocessors);
}

}  // namespace

std::int64_t MatmulWorkspace(const Matmul& matmul, std::int64_t limit,
                             std::int64_t multiprocessors) {
  if (matmul.m <= 0 || matmul.n <= 0 || matmul.k <= 0 || matmul.batch <= 0 ||
      multiprocessors <= 1) {
    return 0;
  }
  const std::int64_t bytes = Wanted(matmul, limit, multiprocessors);
  return bytes <= limit ? bytes : 0;  // an algorithm that needs more is not offered
}

}  // namespace memmodel::vgpu
