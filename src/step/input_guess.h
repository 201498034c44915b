// Input shapes that a TorchScript network is likely to take.
#ifndef MEMMODEL_SRC_STEP_INPUT_GUESS_H_
#define MEMMODEL_SRC_STEP_INPUT_GUESS_H_

#include <torch/csrc/jit/api/module.h>

#include <vector>

#include "src/step/model.h"

namespace memmodel::step {

// Walks forward's graph from each input to the first operator that fixes its kind:
// a convolution gives the channels (and usual sizes: 3x224x224, 3x16x112x112), an
// embedding 512 tokens, a linear layer its in_features. Candidates in the order in
// which they should be tried; empty if an input meets no such operator. Inlining
// leaves compiled copies of the graphs behind: see Model::InputCandidates.
std::vector<std::vector<InputSpec>> GuessInputs(const torch::jit::Module& module);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_INPUT_GUESS_H_
