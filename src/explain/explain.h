// What the memory of a job is for, why it grows as it does, and what would lower it.
#ifndef MEMMODEL_SRC_EXPLAIN_EXPLAIN_H_
#define MEMMODEL_SRC_EXPLAIN_EXPLAIN_H_

#include <optional>
#include <string>
#include <vector>

#include "memmodel/memory_model.h"
#include "memmodel/predict.h"

namespace memmodel {

struct Suggestion {
  std::string change;      // "bf16 autocast (--precision amp-bf16)"
  bool simulated = false;  // true: an edited trace through the simulator; false: run
  Bytes saves = 0;         // of the device figure at the batch; negative: costs
  std::optional<std::int64_t> largest_batch;
  std::string note;     // "" or one sentence
  std::string failure;  // why it could not be tried: then nothing else is known
};

// A group of layers: a repeated block, or a layer that is in none.
struct GroupMemory {
  std::string path;
  Bytes constant = 0;  // weights, gradients, optimizer state
  AffineBytes activations;
};

struct Explanation {
  Prediction prediction;  // at `batch`
  std::int64_t batch = 0;
  Trace trace;                      // at `batch`
  std::vector<GroupMemory> groups;  // by activations at `batch`, largest first
  std::vector<std::string> sentences;
  std::vector<Suggestion> suggestions;  // most saved first; those that save nothing last
};

struct ExplainOptions {
  PredictOptions predict;
  bool suggest = true;  // run the suggestions, a second or two each
};

Result<Explanation> Explain(const ExplainOptions& options);

// The sentences alone, from a model and what was measured or predicted at `batch`.
// `prediction` must have a peak and a use.
std::vector<std::string> ExplainInWords(const MemoryModel& model, const Prediction& prediction,
                                        std::int64_t batch);
std::vector<GroupMemory> GroupsOf(const MemoryModel& model, std::int64_t batch);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_EXPLAIN_H_
