// What a finished run of a script means: an answer, or the one message that says
// why there is none.
#ifndef MEMMODEL_SRC_RUN_JUDGE_H_
#define MEMMODEL_SRC_RUN_JUDGE_H_

#include <string>
#include <vector>

#include "memmodel/run.h"
#include "memmodel/status.h"
#include "src/run/script.h"

namespace memmodel {

// Ok if the run used a GPU and ended by itself, by its steps, or out of memory; else
// the message.
Status Judge(const RunOptions& options, const ScriptRun& run);

// The first difference between the requests of two runs of the same script whose
// unknown reads were answered otherwise, from the first such read on (what went before
// cannot depend on one, and may differ: threads that load weights). "" if there is none; else the
// place of the last read before it, or why the runs cannot be compared.
std::string FirstDifference(const ScriptRun& run, const ScriptRun& other);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_JUDGE_H_
