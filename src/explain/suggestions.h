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
  PredictOptions options;  // with the batch to run set
  int batch_factor = 1;    // samples of an optimizer step for each of `batch`
};

// The changes that make sense for this job at `batch`.
std::vector<Variant> VariantsOf(const PredictOptions& options, const Prediction& prediction,
                                std::int64_t batch);

// Runs each variant; those that cannot be run are left out.
std::vector<Suggestion> RunVariants(const std::vector<Variant>& variants, Bytes device_bytes,
                                    bool largest_batches);

// What checkpointing the repeated blocks saves, by simulation; nothing if the
// trace has none.
std::optional<Suggestion> SuggestCheckpoints(const Trace& trace, const PredictOptions& options);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_SUGGESTIONS_H_
