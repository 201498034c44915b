// Which inputs a job runs with, and which loss fits what comes out.
#ifndef MEMMODEL_SRC_STEP_FIND_INPUTS_H_
#define MEMMODEL_SRC_STEP_FIND_INPUTS_H_

#include <string>
#include <vector>

#include "memmodel/status.h"
#include "src/step/job.h"
#include "src/step/loss.h"
#include "src/step/model.h"

namespace memmodel::step {

struct FoundInputs {
  Status status;   // not ok: nothing fits; the message is for the user
  std::string op;  // where the given inputs failed
  std::string module;
  std::vector<InputSpec> inputs;
  LossPlan plan;
  bool assumed = false;  // neither given nor stored in the file
  std::vector<std::string> assumptions;
};

// Inputs that were given, else those that the file stores, else the model's own
// candidates, are tried in a process of their own until forward runs.
FoundInputs FindInputs(const Job& job, Model& model);

std::string DtypeText(at::ScalarType dtype);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_FIND_INPUTS_H_
