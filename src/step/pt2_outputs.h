// Puts a graph's flat outputs back into the structure that forward returned.
#ifndef MEMMODEL_SRC_STEP_PT2_OUTPUTS_H_
#define MEMMODEL_SRC_STEP_PT2_OUTPUTS_H_

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace memmodel::step {

// `tree` is a serialized pytree, such as [1, {"type": "builtins.dict", "context":
// "[\"loss\"]", "children_spec": [...]}]. Dictionaries, and classes whose context
// lists as many names as they have parts, become Dict(str, Any); all other
// structures tuples. One leaf becomes itself. A tree that is missing, damaged or of
// another number of leaves gives the only value, or a tuple of all.
c10::IValue BuildOutputs(const std::string& tree, std::vector<c10::IValue> values);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_OUTPUTS_H_
