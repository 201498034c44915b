// Changes to TorchScript graphs, made once before they run for the first time.
#ifndef MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_
#define MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_

#include <torch/csrc/jit/api/module.h>

namespace memmodel::step {

// Tracing writes the device it ran on into the graph ("cpu", "cuda:1", ...): all
// of them become cuda:0, where the network is going to run. No CUDA call is made.
void RewriteDevices(const torch::jit::Module& module);

// Moves the graph's tensor constants to `device`, except zero-dimensional ones and
// those that the graph moves or indexes with itself: these work from the CPU.
void MoveConstants(const torch::jit::Module& module, at::Device device);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_
