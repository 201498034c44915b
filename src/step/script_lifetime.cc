// A graph does not know Python's variables, but their names survive: scripting and
// tracing name a value after the variable that it was assigned to, and saving adds
// a number where a name comes again. So
//
//   def forward(self, x):            x.1 is the argument
//       out = self.conv(x)           out.1
//       out = self.bn(out)           out0.1
//       return self.relu(out + x)
//
// has two values of the variable "out": the first dies when the second is assigned,
// after bn; the second when forward returns. The argument x belongs to the caller,
// who holds it until forward returns. A use is a node memmodel::keep(values), which
// does nothing: after CallMethod for its arguments, after the node that assigns a
// variable again for its old value, before the return for the last values.
//
// Values without a name ("_12") are temporaries, to which TorchScript's rule fits.
// Assignments within branches and loops are left to it too. A function's variables end
// in the order in which they were first assigned.
//
// Functions that forward calls are not to be seen in a traced graph. Values of their
// variables are given names by scripts/export_model.py that say where they end:
// labels__until3_ with the value whose name has __end3_. A variable has what a function
// returned from its end: query__from3_. Values with __plain_ were made where autocast was off
// (`with torch.autocast(..., enabled=False)`), which the graph does not know either; those
// with __held_ are in an object that lives until the outermost forward returns.
#include "src/step/script_lifetime.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/step/autocast.h"

namespace memmodel::step {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// Those that were left, the innermost last.
thread_local std::vector<std::unique_ptr<Autocast>> plain_parts;

thread_local std::vector<at::Tensor> held_by_objects;

const torch::jit::RegisterOperators kRegistered(
    {torch::jit::Operator(
         "memmodel::keep(...) -> ()",
         [](torch::jit::Stack& stack) {
           const auto count = torch::jit::pop(stack).toInt();
           torch::jit::drop(stack, static_cast<std::size_t>(count));
         },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::hold(Tensor value) -> ()",
         [](torch::jit::Stack& stack) {
           held_by_objects.push_back(torch::jit::pop(stack).toTensor());
         },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::leave_autocast() -> ()",
         [](torch::jit::Stack&) {
           plain_parts.push_back(
               std::make_unique<Autocast>(at::kCUDA, /*enabled=*/false, at::ScalarType::Undefined));
         },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::return_to_autocast() -> ()", [](torch::jit::Stack&) { plain_parts.pop_back(); },
         c10::AliasAnalysisKind::CONSERVATIVE)});

bool IsTensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

// The numbers behind `mark` in a name: 3 and 4 of "loss__end3__end4_0".
std::vector<int> Numbers(const std::string& name, const std::string& mark) {
  std::vector<int> numbers;
  for (std::size_t at = name.find(mark); at != std::string::npos; at = name.find(mark, at + 1)) {
    numbers.push_back(std::atoi(name.c_str() + at + mark.size()));
  }
  return numbers;
}

// "out0.1" and "out.3" are values of "out"; "" for values without a variable.
std::string VariableOf(const Value* value) {
  if (!value->hasDebugName()) return "";
  std::string name = value->debugName();
  name.resize(std::min(name.find('.'), name.size()));
  for (const char* mark : {"__until", "__from", "__end", "__plain", "__held"}) {
    const std::size_t at = name.find(mark);
    if (at == std::string::npos) continue;
    name.resize(at + 1);
    return name == "none_" ? "" : name;
  }
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0)
    name.pop_back();
  return name.empty() || name.front() == '_' ? "" : name;
}

// After nodes whose values have __held_ in their names.
void HoldForObjects(Graph& graph) {
  static const auto kHold = c10::Symbol::fromQualString("memmodel::hold");
  const std::vector<Node*> nodes(graph.block()->nodes().begin(), graph.block()->nodes().end());
  for (Node* node : nodes) {
    for (Value* output : node->outputs()) {
      if (!IsTensor(output) || output->debugName().find("__held_") == std::string::npos) continue;
      graph.create(kHold, {output}, /*num_outputs=*/0)->insertAfter(node);
    }
  }
}

// Calls are few; what they are given stays in the caller's hands until they return.
void KeepArguments(Graph& graph, Block* block) {
  std::vector<Node*> calls;
  for (Node* node : block->nodes()) {
    for (Block* inner : node->blocks()) KeepArguments(graph, inner);
    if (node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction) {
      calls.push_back(node);
    }
  }
  static const auto kKeep = c10::Symbol::fromQualString("memmodel::keep");
  for (Node* call : calls) {
    std::vector<Value*> held;
    for (Value* input : call->inputs()) {
      if (IsTensor(input)) held.push_back(input);
    }
    if (!held.empty()) graph.create(kKeep, held, /*num_outputs=*/0)->insertAfter(call);
  }
}

// Variables of one function in the order of their first assignment, which is the order in
// which they end.
class Variables {
 public:
  // The value that the variable held before, or null.
  Value* Assign(const std::string& variable, Value* value) {
    const auto known = std::find(names_.begin(), names_.end(), variable);
    if (known != names_.end()) {
      return std::exchange(values_[static_cast<std::size_t>(known - names_.begin())], value);
    }
    names_.push_back(variable);
    values_.push_back(value);
    return nullptr;
  }

  [[nodiscard]] const std::vector<Value*>& values() const { return values_; }

 private:
  std::vector<std::string> names_;
  std::vector<Value*> values_;
};

// Around nodes whose values have __plain_ in their names.
void LeaveAutocastWhereOff(Graph& graph) {
  static const auto kLeave = c10::Symbol::fromQualString("memmodel::leave_autocast");
  static const auto kReturn = c10::Symbol::fromQualString("memmodel::return_to_autocast");
  const std::vector<Node*> nodes(graph.block()->nodes().begin(), graph.block()->nodes().end());
  Node* last = nullptr;  // of those that autocast was left for
  for (Node* node : nodes) {
    const auto outputs = node->outputs();
    if (!std::any_of(outputs.begin(), outputs.end(), IsTensor)) continue;
    const bool plain = std::any_of(outputs.begin(), outputs.end(), [](const Value* output) {
      return output->debugName().find("__plain_") != std::string::npos;
    });
    if (plain && last == nullptr) graph.create(kLeave, 0)->insertBefore(node);
    if (!plain && last != nullptr) graph.create(kReturn, 0)->insertAfter(last);
    last = plain ? node : nullptr;
  }
  if (last != nullptr) graph.create(kReturn, 0)->insertAfter(last);
}

void KeepVariables(Graph& graph) {
  static const auto kKeep = c10::Symbol::fromQualString("memmodel::keep");
  struct Call {
    Variables variables;
    std::vector<std::tuple<Variables*, std::string, Value*>> results;
    bool ended = false;
  };
  Variables own;
  std::map<int, Call> calls;                                   // of functions that forward calls
  std::vector<std::pair<std::vector<Value*>, Node*>> endings;  // values, node after which they end
  const auto assign = [&](Variables& variables, const std::string& variable, Value* value,
                          Node* when) {
    Value* before = variables.Assign(variable, value);
    if (before != nullptr) endings.push_back({{before}, when});
  };
  for (Node* node : graph.block()->nodes()) {
    for (Value* output : node->outputs()) {
      if (!IsTensor(output)) continue;
      const std::string name = output->debugName();
      if (const std::string variable = VariableOf(output); !variable.empty()) {
        const std::vector<int> until = Numbers(name, "__until");
        const std::vector<int> from = Numbers(name, "__from");
        Variables& variables = until.empty() ? own : calls[until.front()].variables;
        if (from.empty()) {
          assign(variables, variable, output, node);
        } else {
          calls[from.front()].results.emplace_back(&variables, variable, output);
        }
      }
      for (const int number : Numbers(name, "__end")) {
        Call& call = calls[number];
        call.ended = true;
        if (!call.variables.values().empty()) endings.push_back({call.variables.values(), node});
        for (const auto& [variables, variable, value] : call.results) {
          assign(*variables, variable, value, node);
        }
      }
    }
  }
  // The first to end last: each is put right behind its node.
  std::reverse(endings.begin(), endings.end());
  for (const auto& [values, node] : endings) {
    graph.create(kKeep, values, /*num_outputs=*/0)->insertAfter(node);
  }
  // What forward returns straight from a call may have lost its name when it was saved. The
  // innermost call ends first.
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->second.ended || call->second.variables.values().empty()) continue;
    graph.block()->appendNode(
        graph.create(kKeep, call->second.variables.values(), /*num_outputs=*/0));
  }
  if (!own.values().empty()) {
    graph.block()->appendNode(graph.create(kKeep, own.values(), /*num_outputs=*/0));
  }
}

}  // namespace

void DropWhatObjectsHeld() { held_by_objects.clear(); }

void KeepAsPythonDoes(const torch::jit::Module& module) {
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    auto* graph_function = torch::jit::tryToGraphFunction(*function);
    if (graph_function == nullptr) continue;
    Graph& graph = *graph_function->graph();
    LeaveAutocastWhereOff(graph);
    HoldForObjects(graph);
    KeepVariables(graph);
    KeepArguments(graph, graph.block());
  }
}

}  // namespace memmodel::step
