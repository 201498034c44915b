// The largest batch of a script: two small ones on a card without end show how memory
// grows, then runs on the card of true size decide.
#ifndef MEMMODEL_SRC_RUN_BATCH_SEARCH_H_
#define MEMMODEL_SRC_RUN_BATCH_SEARCH_H_

#include <cstdint>

#include "memmodel/run.h"
#include "memmodel/status.h"
#include "src/run/runs.h"

namespace memmodel {

inline constexpr std::int64_t kFirstBatches[] = {8, 32};

struct LargestBatches {
  std::int64_t fits = 0;  // within the target; 0: not even one
  std::int64_t runs = 0;  // without running out of memory
};

// Precondition: kFirstBatches have been run on runs->WithoutEnd(). Unknown if memory does not
// grow with the batch, or the search ends at options.largest_batch.
Result<LargestBatches> FindLargestBatches(const RunOptions& options, Runs* runs);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_BATCH_SEARCH_H_
