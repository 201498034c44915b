// Changes to TorchScript graphs, made once before they run for the first time.
#ifndef MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_
#define MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace memmodel::step {

// The functions that `method` of the module calls, itself the first.
std::vector<torch::jit::Function*> CalledFunctions(const torch::jit::Module& module,
                                                   const std::string& method);

// Tracing writes the device it ran on into the graph ("cpu", "cuda:1", ...): all
// of them become cuda:0, where the network is going to run. No CUDA call is made.
void RewriteDevices(const torch::jit::Module& module);

// x[:, :n, 0] is one select in eager PyTorch, which passes over slices that are the whole
// dimension, but where one stands in brackets alone (ATen/TensorIndexing.h of torch 2.11);
// TorchScript writes slices too, with nodes of their own in backward. Takes full slices out,
// and has others passed over when they turn out to be full.
void RemoveFullSlices(const torch::jit::Module& module);

// Whether MoveConstants has anything to move.
bool HasConstantsToMove(const torch::jit::Module& module, const std::string& method);

// Moves the tensor constants of `method`, and of what it calls, to `device`, except
// zero-dimensional ones and those that the graph moves or indexes with itself: these work from
// the CPU.
void MoveConstants(const torch::jit::Module& module, const std::string& method, at::Device device);

// RNNBase._apply of torch/nn/modules/rnn.py: if `module` is an nn.LSTM, nn.GRU or
// nn.RNN, joins its weights into one block, as cuDNN wants them.
void FlattenRecurrentWeights(const torch::jit::Module& module);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_SCRIPT_GRAPH_H_
