// One probe from start to answer, in a process of its own.
#ifndef MEMMODEL_SRC_STEP_PROBE_H_
#define MEMMODEL_SRC_STEP_PROBE_H_

#include <string>
#include <vector>

#include "src/step/answer.h"
#include "src/step/job.h"
#include "src/step/loss.h"
#include "src/step/model.h"
#include "src/tracer/operator_log.h"

namespace memmodel::step {

// Runs the probe and fills in all that is known, whatever happens: out of memory and
// errors are outcomes. `last`: see tracer::WatchOperators.
ProbeAnswer RunProbe(const Job& job, const Probe& probe, const std::vector<InputSpec>& inputs,
                     const LossPlan& plan, Model& model, tracer::LastStarted* last);

// What a trial of the inputs found.
struct Trial {
  std::string error;  // "" if forward ran; else the first line of what failed
  std::string op;
  std::string module;
  bool unknown = false;  // `error` is about a value or output, not about the inputs
  LossPlan plan;
};

// Runs forward once for two samples and plans the loss. Convolutions run without
// cuDNN, whose heuristics take longer than all else and do not matter here.
Trial TryInputs(const Job& job, const std::vector<InputSpec>& inputs, std::int64_t batch,
                Model& model, tracer::LastStarted* last);

std::string FormatTrial(const Trial& trial);
Trial ParseTrial(const std::string& text);  // "" or damaged: an error that says so

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PROBE_H_
