// What each layer keeps, and which requests are made at some batches only.
#ifndef MEMMODEL_SRC_MODEL_LAYERS_H_
#define MEMMODEL_SRC_MODEL_LAYERS_H_

#include <vector>

#include "memmodel/breakdown.h"
#include "src/model/program.h"

namespace memmodel {

// What the block of each allocation in `program` is, by the rules of classify;
// one entry an event, meaningless for others.
std::vector<MemoryKind> KindsOf(const Program& program);

// In the order of the module list; layers that hold nothing are left out.
// Activations and workspaces are those of the last step.
std::vector<LayerModel> LayersOf(const Program& program);

std::vector<OrderChange> OrderChangesOf(const Program& program);
std::vector<FittedSizes> FittedSizesOf(const Program& program);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_LAYERS_H_
