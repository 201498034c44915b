// How long values live: TorchScript's rule made Python's.
#ifndef MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_
#define MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_

#include <torch/csrc/jit/api/module.h>

namespace memmodel::step {

// TorchScript's interpreter drops a value after its last use. Python holds arguments
// until the call returns, and a variable until it is assigned again or its function
// returns. This adds to all graphs of `module` uses that make up the difference.
// Call it once, before anything runs.
void KeepAsPythonDoes(const torch::jit::Module& module);

// When the outermost forward has returned, in its thread.
void DropWhatObjectsHeld();

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_
