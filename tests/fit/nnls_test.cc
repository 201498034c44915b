#include "src/fit/nnls.h"

#include <doctest/doctest.h>

#include <random>

namespace memmodel {
namespace {

TEST_CASE("an exact nonnegative solution is found") {
  Eigen::MatrixXd a(3, 2);
  a << 1, 1, 1, 8, 1, 32;
  const Eigen::VectorXd x = SolveNnls(a, Eigen::Vector3d(5, 12, 36));  // 4 + 1 b
  CHECK(x(0) == doctest::Approx(4));
  CHECK(x(1) == doctest::Approx(1));
}

TEST_CASE("a coefficient that wants to be negative is 0 and the rest is fitted alone") {
  Eigen::MatrixXd a(3, 2);
  a << 1, 1, 1, 2, 1, 3;
  const Eigen::VectorXd x = SolveNnls(a, Eigen::Vector3d(3, 2, 1));
  CHECK(x(1) == 0);
  CHECK(x(0) == doctest::Approx(2));  // the mean
}

// Karush, Kuhn, Tucker: the gradient is 0 where x > 0 and not positive where x = 0.
TEST_CASE("the optimality conditions hold on random problems") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 300; ++round) {
    const Eigen::MatrixXd a = Eigen::MatrixXd::NullaryExpr(8, 6, [&] { return normal(random); });
    const Eigen::VectorXd b = Eigen::VectorXd::NullaryExpr(8, [&] { return normal(random); });
    const Eigen::VectorXd x = SolveNnls(a, b);
    const Eigen::VectorXd gradient = a.transpose() * (b - a * x);
    for (Eigen::Index i = 0; i < 6; ++i) {
      CAPTURE(round);
      REQUIRE(x(i) >= 0);
      if (x(i) > 1e-9) REQUIRE(std::abs(gradient(i)) < 1e-8);
      if (x(i) == 0) REQUIRE(gradient(i) < 1e-8);
    }
  }
}

}  // namespace
}  // namespace memmodel
