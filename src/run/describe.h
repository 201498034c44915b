// The figures of a run: peaks, ranks, breakdown, and notes on what is missing.
#ifndef MEMMODEL_SRC_RUN_DESCRIBE_H_
#define MEMMODEL_SRC_RUN_DESCRIBE_H_

#include "memmodel/run.h"
#include "memmodel/status.h"
#include "src/run/runs.h"

namespace memmodel {

// Fills all of `answer` but the verdict.
Status Describe(const RunOptions& options, const Runs& runs, const ScriptRun& run,
                RunAnswer* answer);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_DESCRIBE_H_
