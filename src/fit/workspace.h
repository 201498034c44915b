// Which simple rule a workspace follows as the batch grows.
#ifndef MEMMODEL_SRC_FIT_WORKSPACE_H_
#define MEMMODEL_SRC_FIT_WORKSPACE_H_

#include <vector>

#include "memmodel/memory_model.h"

namespace memmodel {

// Fits the points (distinct batches, ascending) with a constant, a line and
// nonnegative hinges at the batches where the slope changes, and keeps the one
// that predicts left-out points best; of equals, the simplest. Exact when a
// simpler rule passes through all points. `traced` of the result is `points`.
WorkspaceModel FitWorkspace(const std::vector<BatchBytes>& points);

// Root mean square error, in bytes, of predicting each interior point from the
// others by the named rule: "constant", "affine", "hinges".
double HeldOutError(const std::vector<BatchBytes>& points, const std::string& rule);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_FIT_WORKSPACE_H_
