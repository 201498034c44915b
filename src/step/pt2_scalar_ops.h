// Python's arithmetic on the numbers of a graph: sizes, and what is made of them.
#ifndef MEMMODEL_SRC_STEP_PT2_SCALAR_OPS_H_
#define MEMMODEL_SRC_STEP_PT2_SCALAR_OPS_H_

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace memmodel::step {

// Takes and gives int, double or bool. Throws c10::Error on operands that Python
// would refuse too (division by zero, a tensor).
using ScalarFunction = c10::IValue (*)(const std::vector<c10::IValue>& operands);

// The function that a node target such as "_operator.mul", "math.ceil" or
// "torch.sym_max" names (serialize.py, _SYM_OPS), or "torch.ops.aten.sym_size.int"
// and its kin, whose first operand is a tensor; nullptr if it is none of them.
ScalarFunction FindScalarFunction(std::string_view target);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_SCALAR_OPS_H_
