// What activation checkpointing of the repeated blocks would do, by editing a
// trace: nothing is run.
#ifndef MEMMODEL_SRC_EXPLAIN_CHECKPOINT_H_
#define MEMMODEL_SRC_EXPLAIN_CHECKPOINT_H_

#include <string>
#include <string_view>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel {

// The block of a module: its path up to the first number, "layer1.0" of
// "layer1.0.conv2", "encoder.layer_3" of "encoder.layer_3.mlp.0"; "" for none.
std::string BlockOf(std::string_view module_path);

// The blocks whose forward makes something that lives to the backward pass, in
// the order in which they first run.
std::vector<std::string> BlocksOf(const Trace& trace);

// The trace as it would be with torch.utils.checkpoint around each block: what a
// block's forward keeps, but for its last result, is released at the end of that
// forward; all requests of that forward are made once more before the block's
// first request in backward. Addresses of the result are the allocations'
// numbers; it has no segments.
Trace WithCheckpoints(const Trace& trace);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_EXPLAIN_CHECKPOINT_H_
