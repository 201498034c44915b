// A process's memory over the batch is nearly a line: context, weights and
// optimizer state are constant, activations are proportional to the batch. Two
// things bend it. Workspaces and cached blocks grow up to some batch and then
// stay (the curve is steeper at small batches); or the peak stands in the
// optimizer step, whose memory does not grow, until activations exceed it (the
// curve is flat first). One bent term beside the line carries either.
//
// Where the bend lies cannot be read off a few points, so it is scanned: every
// shape at every bend of a grid is fitted by nonnegative least squares, with
// relative weights. All that meet every point within its tolerance are kept, with
// the points moved to the ends of their tolerance too; their spread, and what
// measured curves do beyond such fits, is the interval. The curve shown is the one with the
// smallest residual, of equals the one that bends at a measured batch.
//
// Example: 2.1, 3.8, 8.4 GB at 1, 8, 32: 0.243 GB a sample at first, 0.192 later.
// Bent at 8: 1.857 + 0.1917 b + 0.41 min(b, 8) / 8, which meets all three.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "memmodel/fit.h"
#include "src/fit/nnls.h"

namespace memmodel {
namespace {

constexpr double kLargestResidual = 0.01;  // what a user may expect of a fit to three points

// How far measured curves lie from such a fit to three of their points: 95 % of
// the left-out fourth points within these shares. From 43 networks measured at
// batches 1, 4, 16, 64 on an NVIDIA H200 (torch 2.11, SGD, fp32); the same
// networks with AdamW and bf16 judge it (docs/fit.md).
constexpr double kBetween = 0.085;
constexpr double kBeyondPerDoubling = 0.065;
constexpr int kBendsBetween = 12;  // grid of bends between the first and last but one batch

double Term(BendShape shape, double at, double b) {
  switch (shape) {
    case BendShape::kNone:
      return 0;
    case BendShape::kSaturating:
      return std::min(b, at) / at;
    case BendShape::kExponential:
      return 1 - std::exp(-b / at);
    case BendShape::kLate:
      return std::max(0.0, b - at);
  }
  return 0;
}

// Least squares on values / values: relative residuals.
PointCurve FitShape(const std::vector<MeasuredPoint>& points, const std::vector<double>& values,
                    BendShape shape, double at) {
  const auto rows = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd a(rows, shape == BendShape::kNone ? 2 : 3);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const auto b = static_cast<double>(points[static_cast<std::size_t>(i)].batch);
    const double weight = 1 / values[static_cast<std::size_t>(i)];
    a(i, 0) = weight;
    a(i, 1) = weight * b;
    if (shape != BendShape::kNone) a(i, 2) = weight * Term(shape, at, b);
  }
  const Eigen::VectorXd x = SolveNnls(a, Eigen::VectorXd::Ones(rows));
  PointCurve curve{.constant = x(0), .slope = x(1)};
  if (shape != BendShape::kNone && x(2) > 0) {
    curve.shape = shape;
    curve.amount = x(2);
    curve.at = at;
  }
  return curve;
}

double Residual(const PointCurve& curve, const std::vector<MeasuredPoint>& points) {
  double largest = 0;
  for (const MeasuredPoint& p : points) {
    const auto bytes = static_cast<double>(p.bytes);
    largest = std::max(largest, std::fabs(curve.At(static_cast<double>(p.batch)) - bytes) / bytes);
  }
  return largest;
}

bool WithinTolerance(const PointCurve& curve, const std::vector<MeasuredPoint>& points) {
  return std::all_of(points.begin(), points.end(), [&](const MeasuredPoint& p) {
    return std::fabs(curve.At(static_cast<double>(p.batch)) - static_cast<double>(p.bytes)) <=
           static_cast<double>(p.tolerance) * 1.0001 + 1;
  });
}

struct Bend {
  BendShape shape;
  double at;
};

// Measured batches first, so that of equal fits the one bent there is kept.
std::vector<Bend> Bends(const std::vector<MeasuredPoint>& points) {
  std::vector<Bend> bends = {{BendShape::kNone, 1}};
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const auto at = static_cast<double>(points[i].batch);
    bends.push_back({BendShape::kSaturating, at});
    bends.push_back({BendShape::kLate, at});
  }
  const auto first = static_cast<double>(points.front().batch);
  // Later than the last but one batch nothing bounds what comes after the bend.
  const auto inner = static_cast<double>(points[points.size() - 2].batch);
  for (int i = 1; i <= kBendsBetween; ++i) {
    const double at = first * std::pow(inner / first, static_cast<double>(i) / kBendsBetween);
    bends.push_back({BendShape::kSaturating, at});
    bends.push_back({BendShape::kExponential, at});
    bends.push_back({BendShape::kLate, at});
  }
  return bends;
}

// The points as measured, and with every point at either end of its tolerance;
// with many points each is moved alone.
std::vector<std::vector<double>> Variations(const std::vector<MeasuredPoint>& points) {
  const std::size_t n = points.size();
  std::vector<double> measured;
  for (const MeasuredPoint& p : points) measured.push_back(static_cast<double>(p.bytes));
  std::vector<std::vector<double>> all = {measured};
  const bool every = n <= 6;
  for (std::size_t bits = 0; bits < (every ? std::size_t{1} << n : 2 * n); ++bits) {
    std::vector<double> moved = measured;
    for (std::size_t i = 0; i < n; ++i) {
      const auto tolerance = static_cast<double>(points[i].tolerance);
      if (every) moved[i] += (bits >> i) & 1 ? tolerance : -tolerance;
      if (!every && bits / 2 == i) moved[i] += bits & 1 ? tolerance : -tolerance;
      moved[i] = std::max(moved[i], 1.0);
    }
    all.push_back(std::move(moved));
  }
  return all;
}

Status Check(const std::vector<MeasuredPoint>& points) {
  if (points.size() < 3) {
    return Status::InvalidArgument(
        std::to_string(points.size()) +
        " measured points; at least three batches are needed, since two cannot tell a bend from a "
        "line: measure one more, far from the others");
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    const MeasuredPoint &a = points[i - 1], &b = points[i];
    if (a.bytes - a.tolerance > b.bytes + b.tolerance) {
      return Status::InvalidArgument("memory falls from " + std::to_string(a.bytes) +
                                     " bytes at batch " + std::to_string(a.batch) + " to " +
                                     std::to_string(b.bytes) + " at batch " +
                                     std::to_string(b.batch) + "; measure these two again");
    }
  }
  return {};
}

std::string InGigabytes(double bytes) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), bytes < 1e8 ? "%.1f MB" : "%.3f GB",
                bytes < 1e8 ? bytes / 1e6 : bytes / 1e9);
  return text.data();
}

std::string Number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

}  // namespace

std::string_view Name(BendShape shape) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "saturating", "exponential", "late"};
  return kNames[static_cast<std::size_t>(shape)];
}

double PointCurve::At(double batch) const {
  return constant + slope * batch + amount * Term(shape, at, batch);
}

Bytes PointsFit::At(std::int64_t batch) const {
  return std::llround(curve.At(static_cast<double>(batch)));
}

ByteRange PointsFit::RangeAt(std::int64_t batch) const {
  const Bytes central = At(batch);
  ByteRange range{central, central};
  for (const PointCurve& candidate : candidates) {
    const Bytes value = std::llround(candidate.At(static_cast<double>(batch)));
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  // Real curves bend more than once; but they do not fall.
  Bytes floor = 0, ceiling = std::numeric_limits<Bytes>::max();
  for (const MeasuredPoint& p : points) {
    if (p.batch == batch) return range;
    if (p.batch < batch) floor = std::max(floor, p.bytes - p.tolerance);
    if (p.batch > batch) ceiling = std::min(ceiling, p.bytes + p.tolerance);
  }
  const double outside =
      batch > points.back().batch
          ? std::log2(static_cast<double>(batch) / static_cast<double>(points.back().batch))
          : 0;
  const double share = outside > 0 ? kBeyondPerDoubling * outside : kBetween;
  const auto spread = static_cast<Bytes>(share * static_cast<double>(central));
  range.low = std::min(range.low, std::max(floor, central - spread));
  range.high = std::max(range.high, std::min(ceiling, central + spread));
  return range;
}

PointsFit::Largest PointsFit::Solve(const GpuBudget& budget) const {
  Largest answer;
  answer.budget_bytes =
      static_cast<Bytes>(budget.target * static_cast<double>(budget.total_bytes)) -
      budget.used_bytes;
  // The curves do not fall, so bisection finds the last batch that fits.
  const auto last = [&](auto&& bytes_at) {
    std::int64_t fits = 0, fails = MemoryModel::kLargestBatch + 1;
    while (fails - fits > 1) {
      const std::int64_t middle = fits + (fails - fits) / 2;
      (bytes_at(middle) <= answer.budget_bytes ? fits : fails) = middle;
    }
    return fits;
  };
  answer.batch = last([&](std::int64_t b) { return At(b); });
  answer.safe_batch = last([&](std::int64_t b) { return RangeAt(b).high; });
  return answer;
}

Result<PointsFit> FitPoints(const std::vector<MeasuredPoint>& points) {
  if (Status status = Check(points); !status.ok()) return status;
  PointsFit fit;
  fit.points = points;
  fit.largest_residual = -1;
  const std::vector<std::vector<double>> variations = Variations(points);
  for (const Bend& bend : Bends(points)) {
    for (std::size_t v = 0; v < variations.size(); ++v) {
      const PointCurve curve = FitShape(points, variations[v], bend.shape, bend.at);
      if (WithinTolerance(curve, points)) fit.candidates.push_back(curve);
      if (v != 0) continue;  // as measured
      const double residual = Residual(curve, points);
      if (fit.largest_residual < 0 || residual < fit.largest_residual * 0.99 - 1e-6) {
        fit.curve = curve;
        fit.largest_residual = residual;
      }
    }
  }
  if (fit.largest_residual > kLargestResidual) {
    return Status::InvalidArgument(
        "no curve of a constant, a line and one bend meets these points within 1 % (the best "
        "misses one by " +
        Number(100 * fit.largest_residual) +
        " %); measure again, or give traces in place of points");
  }
  return fit;
}

std::vector<std::string> PointsFit::Explain() const {
  std::vector<std::string> text;
  text.push_back(InGigabytes(curve.constant) +
                 " do not depend on the batch: context, weights, gradients, optimizer state.");
  text.push_back("Every sample adds " + InGigabytes(curve.slope) + " for its activations.");
  const std::string at = Number(curve.at);
  switch (curve.shape) {
    case BendShape::kNone:
      text.push_back("The points lie on a line: nothing bends the curve.");
      break;
    case BendShape::kSaturating:
      text.push_back("Up to batch " + at + " another " + InGigabytes(curve.amount / curve.at) +
                     " a sample come on top, " + InGigabytes(curve.amount) +
                     " in all, and no more beyond: that is why the curve is steeper at small "
                     "batches. Workspaces and cached blocks behave so.");
      break;
    case BendShape::kExponential:
      text.push_back("A further " + InGigabytes(curve.amount) +
                     " fill up as the batch grows, two thirds of them by batch " + at +
                     ": that is why the curve is steeper at small batches. Workspaces and cached "
                     "blocks behave so.");
      break;
    case BendShape::kLate:
      text.push_back("From batch " + at + " on every sample adds another " +
                     InGigabytes(curve.amount) +
                     ": below it the peak is not where the activations are, as when it stands in "
                     "the optimizer step.");
      break;
  }
  std::string residual = largest_residual < 1e-5 ? std::string("The curve meets every point.")
                                                 : "The curve misses no point by more than " +
                                                       Number(100 * largest_residual) + " %.";
  if (points.size() == 3) {
    residual +=
        " With three points that is no proof: the interval shows what other bends would say.";
  }
  text.push_back(std::move(residual));
  return text;
}

}  // namespace memmodel
