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
// Assignments within branches and loops are left to it too.
#include "src/step/script_lifetime.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace memmodel::step {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

const torch::jit::RegisterOperators kRegistered({torch::jit::Operator(
    "memmodel::keep(...) -> ()",
    [](torch::jit::Stack& stack) {
      const auto count = torch::jit::pop(stack).toInt();
      torch::jit::drop(stack, static_cast<std::size_t>(count));
    },
    c10::AliasAnalysisKind::CONSERVATIVE)});

bool IsTensor(const Value* value) { return value->type()->kind() == c10::TypeKind::TensorType; }

// "out0.1" and "out.3" are values of "out"; "" for values without a variable.
std::string VariableOf(const Value* value) {
  if (!value->hasDebugName()) return "";
  std::string name = value->debugName();
  name.resize(std::min(name.find('.'), name.size()));
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0)
    name.pop_back();
  return name.empty() || name.front() == '_' ? "" : name;
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

void KeepVariables(Graph& graph) {
  static const auto kKeep = c10::Symbol::fromQualString("memmodel::keep");
  std::map<std::string, Value*> current;
  std::vector<std::pair<Value*, Node*>> replaced;  // old value, node that assigns anew
  for (Node* node : graph.block()->nodes()) {
    for (Value* output : node->outputs()) {
      const std::string variable = IsTensor(output) ? VariableOf(output) : "";
      if (variable.empty()) continue;
      Value*& value = current[variable];
      if (value != nullptr) replaced.emplace_back(value, node);
      value = output;
    }
  }
  for (const auto& [value, node] : replaced) {
    graph.create(kKeep, {value}, /*num_outputs=*/0)->insertAfter(node);
  }
  std::vector<Value*> last;
  for (const auto& [variable, value] : current) last.push_back(value);
  if (!last.empty()) graph.block()->appendNode(graph.create(kKeep, last, /*num_outputs=*/0));
}

}  // namespace

void KeepAsPythonDoes(const torch::jit::Module& module) {
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    auto* graph_function = torch::jit::tryToGraphFunction(*function);
    if (graph_function == nullptr) continue;
    Graph& graph = *graph_function->graph();
    KeepVariables(graph);
    KeepArguments(graph, graph.block());
  }
}

}  // namespace memmodel::step
