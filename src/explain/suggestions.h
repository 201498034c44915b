// Changes to a job that may lower its memory.
#ifndef MEMMODEL_SRC_EXPLAIN_SUGGESTIONS_H_
#define MEMMODEL_SRC_EXPLAIN_SUGGESTIONS_H_

#include <string>
#include <vector>

#include "memmodel/predict.h"
#include "src/explain/explain.h"

namespace memmodel {

struct Variant {
  std::string change;
  PredictOptions options;
  std::int64_t batch = 1;  // to compare at
  int batch_factor = 1;    // samples of an optimizer step for each of a batch
};

// The changes that make sense for this job at `batch`.
std::vector<Variant> VariantsOf(const PredictOptions& options, const Prediction& prediction,
                                std::int64_t batch);

// Runs each variant at its batch and looks for its largest; those that cannot be
// run say why. `device_bytes` is what the job as it is takes at the batch.
std::vector<Suggestion> RunVariants(const std::vector<Variant>& variants, Bytes device_bytes);

// What checkpointing the repeated blocks saves at `trace`'s batch, and the largest
// batch with it, by simulation; nothing if the trace has none.
std::optional<Suggestion> SuggestCheckpoints(const MemoryModel& model, const Trace& trace,
                                             const PredictOptions& options, Bytes context);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_SUGGESTIONS_H_
