#include "src/fit/nnls.h"

#include <vector>

namespace memmodel {
namespace {

// The unconstrained solution on the columns in `passive`, 0 elsewhere.
Eigen::VectorXd SolvePassive(const Eigen::MatrixXd& a, const Eigen::VectorXd& b,
                             const std::vector<bool>& passive) {
  std::vector<Eigen::Index> columns;
  for (Eigen::Index i = 0; i < a.cols(); ++i) {
    if (passive[static_cast<std::size_t>(i)]) columns.push_back(i);
  }
  Eigen::MatrixXd sub(a.rows(), static_cast<Eigen::Index>(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    sub.col(static_cast<Eigen::Index>(i)) = a.col(columns[i]);
  }
  const Eigen::VectorXd part = sub.colPivHouseholderQr().solve(b);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  for (std::size_t i = 0; i < columns.size(); ++i)
    x(columns[i]) = part(static_cast<Eigen::Index>(i));
  return x;
}

}  // namespace

Eigen::VectorXd SolveNnls(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  const Eigen::Index n = a.cols();
  Eigen::VectorXd x = Eigen::VectorXd::Zero(n);
  std::vector<bool> passive(static_cast<std::size_t>(n), false);
  const double tolerance = 1e-10 * (a.transpose() * b).cwiseAbs().maxCoeff();
  // Each round adds a column; columns leave only when that lowers the residual,
  // so the loop ends; the bound is for rounding errors.
  for (Eigen::Index round = 0; round < 10 * n; ++round) {
    const Eigen::VectorXd gradient = a.transpose() * (b - a * x);
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < n; ++i) {
      if (!passive[static_cast<std::size_t>(i)] && gradient(i) > tolerance &&
          (best < 0 || gradient(i) > gradient(best))) {
        best = i;
      }
    }
    if (best < 0) break;
    passive[static_cast<std::size_t>(best)] = true;
    while (true) {
      const Eigen::VectorXd z = SolvePassive(a, b, passive);
      // As far towards z as all stay nonnegative; the one that hits 0 leaves.
      double step = 1;
      Eigen::Index hit = -1;
      for (Eigen::Index i = 0; i < n; ++i) {
        if (!passive[static_cast<std::size_t>(i)] || z(i) > 0) continue;
        const double ratio = x(i) > 0 ? x(i) / (x(i) - z(i)) : 0;
        if (hit < 0 || ratio < step) {
          step = ratio;
          hit = i;
        }
      }
      if (hit < 0) {
        x = z;
        break;
      }
      x += step * (z - x);
      x(hit) = 0;
      passive[static_cast<std::size_t>(hit)] = false;
    }
  }
  return x.cwiseMax(0);
}

}  // namespace memmodel
