// torch.utils.checkpoint.checkpoint(..., use_reentrant=False) of PyTorch 2.11 around
// modules of a TorchScript network.
#ifndef MEMMODEL_SRC_STEP_CHECKPOINT_H_
#define MEMMODEL_SRC_STEP_CHECKPOINT_H_

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "memmodel/status.h"

namespace memmodel::step {

// From now on calls of the submodules whose paths match `glob` ("encoder.layers.*", as
// fnmatch(3)) keep their arguments alone when gradients are recorded; the first saved
// tensor that backward asks for runs the call again, up to the last one it needs. Fails
// if no module matches. A match within another match is run as part of it.
Status CheckpointModules(const torch::jit::Module& module, const std::string& glob);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_CHECKPOINT_H_
