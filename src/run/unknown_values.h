// Values that the script read although only a kernel computes them: whether memory
// depends on them, and between which figures it lies if counts are answered.
#ifndef MEMMODEL_SRC_RUN_UNKNOWN_VALUES_H_
#define MEMMODEL_SRC_RUN_UNKNOWN_VALUES_H_

#include <cstdint>

#include "memmodel/run.h"
#include "memmodel/status.h"
#include "src/run/runs.h"

namespace memmodel {

// Sorts the reads of `run`, which is kept in `runs`, into answer->harmless and, with verdict
// unknown, answer->prediction.unknown. Counts that were answered are neither. Runs the script
// again with other answers if any read is left.
Status WeighUnknownReads(const RunOptions& options, Runs* runs, const ScriptRun& run,
                         std::int64_t batch, RunAnswer* answer);

// If `run` was answered counts: names them in answer->prediction.unknown and widens its
// interval to the runs with none and with all of the largest counts. Call after Describe.
Status BoundCounts(const RunOptions& options, Runs* runs, const ScriptRun& run, std::int64_t batch,
                   RunAnswer* answer);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_UNKNOWN_VALUES_H_
