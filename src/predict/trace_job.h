// Traces of a job at some batches, for whoever looks at the events themselves.
#ifndef MEMMODEL_SRC_PREDICT_TRACE_JOB_H_
#define MEMMODEL_SRC_PREDICT_TRACE_JOB_H_

#include <cstdint>
#include <vector>

#include "memmodel/predict.h"
#include "memmodel/trace.h"
#include "src/child/protocol.h"

namespace memmodel {

struct TracedRun {
  std::int64_t batch = 0;
  Trace trace;
  ProbeAnswer answer;
};

struct TracedJob {
  LoadedModel loaded;
  std::vector<TracedRun> runs;  // in the order of the batches that were asked for
};

// Runs `options.steps` steps at each of `batches` on a card without end (under
// options.allocator_limit, if that is set). Errors as for Predict; a batch that
// runs out of memory or does not run is one.
Result<TracedJob> TraceJob(const PredictOptions& options,
                           const std::vector<std::int64_t>& batches);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_TRACE_JOB_H_
