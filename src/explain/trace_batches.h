// Traces of one job at several batches.
#ifndef MEMMODEL_SRC_EXPLAIN_TRACE_BATCHES_H_
#define MEMMODEL_SRC_EXPLAIN_TRACE_BATCHES_H_

#include <cstdint>
#include <vector>

#include "memmodel/predict.h"
#include "memmodel/trace.h"

namespace memmodel {

// Runs the job at each of `batches` on a card without end; the traces of those
// that went through, in the order of `batches`. Fails if none did, with the
// reason of the first.
Result<std::vector<Trace>> TraceBatches(const PredictOptions& options,
                                        const std::vector<std::int64_t>& batches);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_TRACE_BATCHES_H_
