// A graph in the form that is run: operators looked up, names turned into slots,
// regions of higher-order operators spliced in, and for each instruction the
// values whose life ends with it.
#ifndef MEMMODEL_SRC_STEP_PT2_INSTRUCTIONS_H_
#define MEMMODEL_SRC_STEP_PT2_INSTRUCTIONS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "memmodel/status.h"
#include "src/step/pt2_scalar_ops.h"
#include "src/step/pt2_schema.h"

namespace memmodel::step {

inline constexpr int kNoSlot = -1;

// One argument of an instruction.
struct Operand {
  enum class Kind { kConstant, kSlot, kDevice, kList };
  // What the operator's schema asks for where a number may come in another form.
  enum class Want { kAsIs, kReal, kTensor };
  enum class Element { kInt, kReal, kBool, kTensor, kOptionalTensor };

  Kind kind = Kind::kConstant;
  Want want = Want::kAsIs;
  c10::IValue constant;
  int slot = kNoSlot;
  std::string device_type;  // kDevice: as the file says
  int device_index = -1;
  Element element = Element::kInt;  // kList
  std::vector<Operand> items;       // kList: slots and constants
};

struct Instruction {
  enum class Kind {
    kOperator,       // `op` on `operands`
    kScalar,         // `scalar` on `operands`
    kFreshTensor,    // torch.tensor(...) in forward: operand 0 made on the device, or on
                     // the CPU with `flag`
    kEnterGrad,      // torch.set_grad_enabled(`flag`)
    kEnterAutocast,  // torch.autocast(operand 0 is the device, `dtype`, enabled=`flag`)
    kLeave,          // ends the innermost of the two
  };
  Kind kind = Kind::kOperator;
  std::optional<c10::OperatorHandle> op;
  ScalarFunction scalar = nullptr;
  bool flag = false;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<Operand> operands;
  // Slots of the results, kNoSlot for one that nobody uses. With `results_are_list`
  // the operator gives one list of as many tensors.
  std::vector<int> results;
  bool results_are_list = false;
  int module = -1;            // index into Instructions::modules
  std::vector<int> releases;  // slots whose values are dropped afterwards
  // kOperator: the argument that says whether the operator trains, or -1; see
  // SetTraining in exported_program.cc.
  int training_operand = -1;
  bool counts_batches = false;  // num_batches_tracked.add_(1) of a batch norm
};

struct ModuleName {
  std::string path;  // "layer1.0.conv1"
  std::string type;  // "Conv2d"
};

struct Instructions {
  std::vector<Instruction> list;
  std::vector<ModuleName> modules;
  int slots = 0;
  std::vector<int> inputs;       // slot of each graph input, kNoSlot for plain numbers
  std::vector<Operand> outputs;  // of each graph output: slots and constants
};

// When a value is dropped (pt2_lifetimes.cc).
enum class Lifetime {
  kLastUse,     // after the last instruction that uses it
  kModuleCall,  // not before the module calls end that it was handed to
  kVariable,    // nor before the Python variable goes that the source lines bind it to
};

// Fails for operators that are not registered and for higher-order operators that
// are not run (control flow), naming them and the module.
Result<Instructions> CompileProgram(const Program& program, Lifetime lifetime,
                                    const std::string& name);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_INSTRUCTIONS_H_
