// A model of the batch from a job: runs it where the model would be least sure.
#ifndef MEMMODEL_SRC_EXPLAIN_FIT_JOB_H_
#define MEMMODEL_SRC_EXPLAIN_FIT_JOB_H_

#include <cstdint>
#include <optional>

#include "memmodel/memory_model.h"
#include "memmodel/predict.h"

namespace memmodel {

struct FitJobOptions {
  PredictOptions predict;
  ModelOptions model;  // context_bytes unset: the device's, with the handles that the job opens
  // Solve this: the largest batch that the first traces promise is traced too.
  std::optional<GpuBudget> budget;
  // How many batches are run at most, 4 to 64. Fewer are if the model is exact.
  int traces = 16;
  // cuDNN and torch are asked for the workspaces of convolutions and reductions at
  // batches 1..plan_batches: up to the largest batch that every job is traced at. An
  // answer of cuDNN takes 2 to 3 ms, a tenth of it once it is kept on disk, one of torch
  // less. 0: they are not asked.
  std::int64_t plan_batches = 64;
};

// Batches 1, 8, 32 and 64 (2 in place of a 1 that does not run) are traced, then, in
// rounds, the middle of those intervals between traced batches whose figures have
// the widest range. Errors as for Predict.
Result<MemoryModel> FitJob(const FitJobOptions& options);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_FIT_JOB_H_
