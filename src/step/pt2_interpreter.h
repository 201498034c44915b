// Runs Instructions under the caller's autograd and autocast state.
#ifndef MEMMODEL_SRC_STEP_PT2_INTERPRETER_H_
#define MEMMODEL_SRC_STEP_PT2_INTERPRETER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "src/step/pt2_instructions.h"

namespace memmodel::step {

class Interpreter {
 public:
  explicit Interpreter(Instructions instructions);

  // Device arguments of type `exported_type` ("cpu" for a graph that was exported on
  // the CPU) mean `device` from now on; other device arguments stay as they are.
  void SetDevice(const std::string& exported_type, at::Device device);

  // A value that stays from run to run: a parameter, a buffer, a constant.
  void Bind(int slot, c10::IValue value);

  // Whether operators train; see Model::SetTraining.
  void SetTraining(bool training);
  // True if the graph was exported in training mode, as far as it tells.
  [[nodiscard]] bool ExportedInTraining() const { return exported_in_training_; }

  // Runs the graph once. `inputs` are (slot, value) pairs. Gives the graph's
  // outputs. Throws c10::Error; values of a failed run are dropped.
  std::vector<c10::IValue> Run(std::vector<std::pair<int, at::Tensor>> inputs);

  [[nodiscard]] const Instructions& instructions() const { return instructions_; }

 private:
  void Execute(const Instruction& instruction);
  void Push(const Operand& operand);
  c10::IValue ListValue(const Operand& operand) const;
  const c10::IValue& ValueOf(const Operand& operand) const;
  void StoreResults(const Instruction& instruction);

  Instructions instructions_;
  std::vector<c10::IValue> values_;  // by slot
  std::vector<c10::IValue> stack_;
  at::Device device_ = at::kCPU;
  bool exported_in_training_ = false;
  bool training_ = true;
  // The training arguments as the file has them: (instruction, value).
  std::vector<std::pair<std::size_t, c10::IValue>> training_values_;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_INTERPRETER_H_
