// A memory curve from a few measured points alone: batch and bytes, as
// nvidia-smi or torch.cuda.max_memory_reserved() showed them.
#ifndef MEMMODEL_FIT_H_
#define MEMMODEL_FIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/memory_model.h"
#include "memmodel/status.h"

namespace memmodel {

struct MeasuredPoint {
  std::int64_t batch = 0;
  Bytes bytes = 0;
  // How far the true value may be from `bytes`: half a unit of the last digit
  // that was written ("2.1GB" is 2.1 +- 0.05), and at least 20 MiB, the unit in
  // which the caching allocator takes memory.
  Bytes tolerance = 0;
};

// "1:2.1GB,8:3.8GB,32:8.4GB". Batches are distinct; the result is ascending.
Result<std::vector<MeasuredPoint>> ParsePoints(std::string_view text);
// A CSV file with a header that names "batch" and one of "bytes",
// "device_bytes", "nvml", "reserved_bytes" or "memory"; other columns are ignored.
Result<std::vector<MeasuredPoint>> ReadPointsCsv(const std::string& path);

// The third term beside constant and linear.
enum class BendShape : std::uint8_t {
  kNone,
  kSaturating,   // amount * min(b, at) / at: grows up to a batch, then stays
  kExponential,  // amount * (1 - exp(-b / at))
  kLate,         // amount * max(0, b - at): begins at a batch
};
std::string_view Name(BendShape shape);  // "none", "saturating", "exponential", "late"

struct PointCurve {
  double constant = 0;  // bytes
  double slope = 0;     // bytes a sample
  BendShape shape = BendShape::kNone;
  double amount = 0;  // bytes; of kLate: bytes a sample
  double at = 0;      // batch
  [[nodiscard]] double At(double batch) const;
};

struct PointsFit {
  std::vector<MeasuredPoint> points;
  PointCurve curve;
  double largest_residual = 0;  // relative: max |curve - measured| / measured
  // All curves that pass within the tolerance of every point: what is not known.
  std::vector<PointCurve> candidates;

  [[nodiscard]] Bytes At(std::int64_t batch) const;
  [[nodiscard]] ByteRange RangeAt(std::int64_t batch) const;
  struct Largest {
    std::int64_t batch = 0;       // by the curve
    std::int64_t safe_batch = 0;  // by the highest candidate
    Bytes budget_bytes = 0;
  };
  // Within target * total - used.
  [[nodiscard]] Largest Solve(const GpuBudget& budget) const;
  // In words, one sentence an element; every figure is of this fit.
  [[nodiscard]] std::vector<std::string> Explain() const;
};

// constant + linear + one bent term, all coefficients nonnegative, by weighted
// nonnegative least squares over a grid of bends. Refuses fewer than three
// points (two cannot tell a bend from a line), points that fall as the batch
// grows by more than their tolerance, and points that no such curve meets
// within 1 %.
Result<PointsFit> FitPoints(const std::vector<MeasuredPoint>& points);

}  // namespace memmodel

#endif  // MEMMODEL_FIT_H_
