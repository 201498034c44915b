// A library's workspace follows one plan until another becomes faster: between
// plan changes it is constant or proportional to the batch, at a change it jumps
// or bends. Splitting along K, which pays for small batches only, makes it fall.
// So the basis is 1, b, and for every inner batch h both max(0, b - h) and
// max(0, h - b), with nonnegative coefficients: least squares then keeps few.
//
// Example: workspaces of 96, 64, 32, 0, 0 KiB at batches 1..5 are 32 KiB a
// sample below 4: a falling hinge at h = 4, where a line misses by 10 KiB.
#include "src/fit/workspace.h"

#include <algorithm>
#include <cmath>

#include "src/fit/nnls.h"

namespace memmodel {
namespace {

using Points = std::vector<BatchBytes>;

double Slope(const BatchBytes& a, const BatchBytes& b) {
  return static_cast<double>(b.bytes - a.bytes) / static_cast<double>(b.batch - a.batch);
}

WorkspaceModel Constant(const Points& points) {
  double sum = 0;
  for (const BatchBytes& p : points) sum += static_cast<double>(p.bytes);
  WorkspaceModel model;
  model.rule = sum == 0 ? "none" : "constant";
  model.constant = sum / static_cast<double>(points.size());
  return model;
}

// Coefficients of 1, b and the hinges at `bends`, all nonnegative.
WorkspaceModel Hinges(const Points& points, const std::vector<std::int64_t>& bends,
                      const std::string& rule) {
  const auto rows = static_cast<Eigen::Index>(points.size());
  const auto hinges = static_cast<Eigen::Index>(bends.size());
  Eigen::MatrixXd a(rows, 2 + 2 * hinges);
  Eigen::VectorXd b(rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const BatchBytes& p = points[static_cast<std::size_t>(i)];
    const auto batch = static_cast<double>(p.batch);
    a(i, 0) = 1;
    a(i, 1) = batch;
    for (Eigen::Index j = 0; j < hinges; ++j) {
      const auto bend = static_cast<double>(bends[static_cast<std::size_t>(j)]);
      a(i, 2 + 2 * j) = std::max(0.0, batch - bend);
      a(i, 3 + 2 * j) = std::max(0.0, bend - batch);
    }
    b(i) = static_cast<double>(p.bytes);
  }
  const Eigen::VectorXd x = SolveNnls(a, b);
  WorkspaceModel model;
  model.rule = rule;
  model.constant = x(0);
  model.slope = x(1);
  for (Eigen::Index j = 0; j < 2 * hinges; ++j) {
    if (x(2 + j) <= 0) continue;
    model.hinges.push_back({bends[static_cast<std::size_t>(j / 2)], x(2 + j), j % 2 == 1});
  }
  return model;
}

// Where the slope changes, of the points that have a neighbour on both sides.
std::vector<std::int64_t> Bends(const Points& points) {
  std::vector<std::int64_t> bends;
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const double before = Slope(points[i - 1], points[i]);
    const double after = Slope(points[i], points[i + 1]);
    if (std::fabs(before - after) > 1e-9 * (std::fabs(before) + std::fabs(after) + 1)) {
      bends.push_back(points[i].batch);
    }
  }
  return bends;
}

WorkspaceModel FitRule(const Points& points, const std::string& rule) {
  if (rule == "constant" || points.size() < 2) return Constant(points);
  return Hinges(points, rule == "hinges" ? Bends(points) : std::vector<std::int64_t>(), rule);
}

double Value(const WorkspaceModel& m, std::int64_t batch) {
  const auto b = static_cast<double>(batch);
  double sum = m.constant + m.slope * b;
  for (const WorkspaceModel::Hinge& h : m.hinges) {
    const double distance = b - static_cast<double>(h.batch);
    sum += h.slope * std::max(0.0, h.below ? -distance : distance);
  }
  return std::max(0.0, sum);
}

double RootMeanSquare(const Points& points, const WorkspaceModel& model) {
  double sum = 0;
  for (const BatchBytes& p : points) {
    const double error = Value(model, p.batch) - static_cast<double>(p.bytes);
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(points.size()));
}

}  // namespace

Bytes WorkspaceModel::At(std::int64_t batch) const { return std::llround(Value(*this, batch)); }

double HeldOutError(const Points& points, const std::string& rule) {
  if (points.size() < 3) return RootMeanSquare(points, FitRule(points, rule));
  double sum = 0;
  for (std::size_t out = 1; out + 1 < points.size(); ++out) {
    Points others = points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(out));
    const double error =
        Value(FitRule(others, rule), points[out].batch) - static_cast<double>(points[out].bytes);
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(points.size() - 2));
}

WorkspaceModel FitWorkspace(const Points& points) {
  WorkspaceModel best;
  best.rule = "none";
  if (!points.empty()) {
    double best_error = -1;
    for (const char* rule : {"constant", "affine", "hinges"}) {
      WorkspaceModel model = FitRule(points, rule);
      const double held_out = HeldOutError(points, rule);
      const bool exact = RootMeanSquare(points, model) < 0.5;  // bytes
      if (best_error >= 0 && held_out >= best_error * 0.999) continue;
      best = std::move(model);
      best_error = held_out;
      best.held_out_error = held_out;
      if (exact && held_out < 0.5) break;
    }
  }
  best.traced = points;
  return best;
}

}  // namespace memmodel
