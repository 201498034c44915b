// Turns a node's argument into what an operator's schema asks for.
#ifndef MEMMODEL_SRC_STEP_PT2_OPERANDS_H_
#define MEMMODEL_SRC_STEP_PT2_OPERANDS_H_

#include <ATen/core/function_schema.h>

#include <map>
#include <stdexcept>
#include <string>

#include "src/step/pt2_instructions.h"

namespace memmodel::step {

// A program that is well formed and cannot be run. Caught in CompileProgram.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using SlotNames = std::map<std::string, int, std::less<>>;

// `names` gives the slot of each value that the graph has made so far. Throws
// Refused for arguments that the schema cannot take, naming them.
Operand MakeOperand(const Argument& argument, const c10::Argument& wanted, const SlotNames& names);

// The same for operations that have no schema: numbers, lists of numbers, tensors.
Operand MakePlainOperand(const Argument& argument, const SlotNames& names);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_OPERANDS_H_
