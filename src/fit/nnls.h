// Nonnegative least squares.
#ifndef MEMMODEL_SRC_FIT_NNLS_H_
#define MEMMODEL_SRC_FIT_NNLS_H_

#include <Eigen/Dense>

namespace memmodel {

// The x >= 0 that minimises |A x - b|. Lawson and Hanson, "Solving Least Squares
// Problems" (1974), algorithm NNLS. A is of a few dozen rows and columns.
Eigen::VectorXd SolveNnls(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_FIT_NNLS_H_
