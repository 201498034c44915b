// The order in which Python's Module.to visits tensors, from their names.
#ifndef MEMMODEL_SRC_STEP_PT2_MODULE_TREE_H_
#define MEMMODEL_SRC_STEP_PT2_MODULE_TREE_H_

#include <string>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

struct TreeTensor {
  std::string name;  // "layer1.0.conv1.weight"
  bool parameter = false;
};

// One step of Module._apply: tensor `tensor` (an index) is moved, or, if that is
// -1, the module `module` has moved all that is in it.
struct ApplyStep {
  int tensor = -1;
  std::string module;
};

// Module._apply visits a module's children first, in the order of their
// registration, then its own parameters, then its own buffers (torch 2.11,
// torch/nn/modules/module.py). `modules` are the module paths in the order of
// named_modules(), "" being the root; modules that only `tensors` name come after
// them. `tensors` are in the order of their registration. Fails for names nested
// deeper than 256 modules.
Result<std::vector<ApplyStep>> ApplyOrder(const std::vector<std::string>& modules,
                                          const std::vector<TreeTensor>& tensors);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_MODULE_TREE_H_
