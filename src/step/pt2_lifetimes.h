// When the values of a graph are dropped.
#ifndef MEMMODEL_SRC_STEP_PT2_LIFETIMES_H_
#define MEMMODEL_SRC_STEP_PT2_LIFETIMES_H_

#include <vector>

#include "src/step/pt2_instructions.h"
#include "src/step/pt2_schema.h"

namespace memmodel::step {

// Fills Instruction::releases of `instructions`. `origins` are the nodes that the
// instructions came from (null: from none). Slots below `first_value` are not
// dropped, nor are the graph's outputs.
void AssignReleases(Instructions& instructions, const std::vector<const Node*>& origins,
                    int first_value, Lifetime lifetime);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_LIFETIMES_H_
