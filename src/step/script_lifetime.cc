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
// Of a graph that scripts/export_model.py traced more is known: it watched how long Python held
// each tensor. memmodel5__held_ is held from the node that makes it to that of memmodel8__end5_,
// wherever that stands; memmodel5__kept_ by the network itself, until it is made again. Where a
// value's dim() is printed it has no other use, but Python calls the operator that makes it. Values
// with __plain_ were made where autocast was off (`with torch.autocast(..., enabled=False)`),
// which a graph does not know either.
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
#include <string_view>
#include <utility>
#include <vector>

#include "src/step/autocast.h"

namespace memmodel::step {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

constexpr std::string_view kWatched = "memmodel";  // how the names of watched values begin

// Those that were left, the innermost last.
thread_local std::vector<std::unique_ptr<Autocast>> plain_parts;

// What Python holds, by the number in its name.
thread_local std::map<std::int64_t, at::Tensor> held, kept;

void Hold(torch::jit::Stack& stack, std::map<std::int64_t, at::Tensor>* into) {
  const std::int64_t number = torch::jit::pop(stack).toInt();
  (*into)[number] = torch::jit::pop(stack).toTensor();
}

const torch::jit::RegisterOperators kRegistered(
    {torch::jit::Operator(
         "memmodel::keep(...) -> ()",
         [](torch::jit::Stack& stack) {
           const auto count = torch::jit::pop(stack).toInt();
           torch::jit::drop(stack, static_cast<std::size_t>(count));
         },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::hold(Tensor value, int number) -> ()",
         [](torch::jit::Stack& stack) { Hold(stack, &held); },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::hold_on(Tensor value, int number) -> ()",
         [](torch::jit::Stack& stack) { Hold(stack, &kept); },
         c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator(
         "memmodel::let_go(int number) -> ()",
         [](torch::jit::Stack& stack) { held.erase(torch::jit::pop(stack).toInt()); },
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

bool Says(const Value* value, std::string_view mark) {
  return value->debugName().find(mark) != std::string::npos;
}

// The number in the name of a watched value.
std::int64_t NumberOf(const Value* value) {
  return std::atoll(value->debugName().c_str() + kWatched.size());
}

// 3 and 4 of "memmodel8__end3___end4_".
std::vector<std::int64_t> Ends(const std::string& name) {
  static constexpr std::string_view kMark = "__end";
  std::vector<std::int64_t> numbers;
  for (std::size_t at = name.find(kMark); at != std::string::npos; at = name.find(kMark, at + 1)) {
    numbers.push_back(std::atoll(name.c_str() + at + kMark.size()));
  }
  return numbers;
}

// "out0.1" and "out.3" are values of "out"; "" for values without a variable.
std::string VariableOf(const Value* value) {
  if (!value->hasDebugName()) return "";
  std::string name = value->debugName();
  name.resize(std::min(name.find('.'), name.size()));
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0)
    name.pop_back();
  return name.empty() || name.front() == '_' ? "" : name;
}

bool IsDim(const Node* node) {
  static const auto kDim = c10::Symbol::fromQualString("aten::dim");
  return node->kind() == kDim;
}

// What is held is so from the node that makes it on; what ends there ends then.
void HoldAsWatched(Graph& graph) {
  static const auto kHold = c10::Symbol::fromQualString("memmodel::hold");
  static const auto kHoldOn = c10::Symbol::fromQualString("memmodel::hold_on");
  static const auto kLetGo = c10::Symbol::fromQualString("memmodel::let_go");
  static const auto kKeep = c10::Symbol::fromQualString("memmodel::keep");
  const std::vector<Node*> nodes(graph.block()->nodes().begin(), graph.block()->nodes().end());
  for (Node* node : nodes) {
    if (node->kind() == c10::prim::Print && IsDim(node->input(0)->node())) {
      Node* dim = node->input(0)->node();
      Value* value = dim->input(0);
      graph.create(kKeep, {value}, /*num_outputs=*/0)->insertAfter(value->node());
      node->destroy();
      dim->destroy();
      continue;
    }
    Node* last = node;
    const auto add = [&](c10::Symbol kind, Value* value, std::int64_t number) {
      torch::jit::WithInsertPoint after(last->next());
      Value* constant = graph.insertConstant(number);
      Node* added = value == nullptr ? graph.create(kind, {constant}, 0)
                                     : graph.create(kind, {value, constant}, 0);
      last = graph.insertNode(added);
    };
    for (Value* output : node->outputs()) {
      if (!IsWatched(output)) continue;
      if (Says(output, "__kept_")) add(kHoldOn, output, NumberOf(output));
      if (Says(output, "__held_")) add(kHold, output, NumberOf(output));
    }
    for (Value* output : node->outputs()) {
      if (!IsWatched(output)) continue;
      for (const std::int64_t number : Ends(output->debugName())) add(kLetGo, nullptr, number);
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
      return IsWatched(output) && Says(output, "__plain_");
    });
    if (plain && last == nullptr) graph.create(kLeave, 0)->insertBefore(node);
    if (!plain && last != nullptr) graph.create(kReturn, 0)->insertAfter(last);
    last = plain ? node : nullptr;
  }
  if (last != nullptr) graph.create(kReturn, 0)->insertAfter(last);
}

void KeepVariables(Graph& graph) {
  static const auto kKeep = c10::Symbol::fromQualString("memmodel::keep");
  Variables variables;
  std::vector<std::pair<Value*, Node*>> endings;  // a value, the node after which it ends
  for (Node* node : graph.block()->nodes()) {
    for (Value* output : node->outputs()) {
      if (!IsTensor(output)) continue;
      const std::string variable = VariableOf(output);
      if (variable.empty()) continue;
      if (Value* before = variables.Assign(variable, output)) endings.emplace_back(before, node);
    }
  }
  for (const auto& [value, node] : endings) {
    graph.create(kKeep, {value}, /*num_outputs=*/0)->insertAfter(node);
  }
  if (!variables.values().empty()) {
    graph.block()->appendNode(graph.create(kKeep, variables.values(), /*num_outputs=*/0));
  }
}

bool HasWatched(const Graph& graph) {
  const auto nodes = graph.block()->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    const auto outputs = node->outputs();
    return std::any_of(outputs.begin(), outputs.end(), &IsWatched);
  });
}

}  // namespace

bool IsWatched(const Value* value) {
  return IsTensor(value) && value->hasDebugName() && value->debugName().starts_with(kWatched);
}

void DropWhatNetworksKeep() { kept.clear(); }

HeldValues::HeldValues() { before_.swap(held); }
HeldValues::~HeldValues() {
  held.clear();
  held.swap(before_);
}

void KeepAsPythonDoes(const torch::jit::Module& module) {
  std::vector<Graph*> graphs;
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    auto* graph_function = torch::jit::tryToGraphFunction(*function);
    if (graph_function != nullptr) graphs.push_back(graph_function->graph().get());
  }
  const bool watched = std::any_of(graphs.begin(), graphs.end(),
                                   [](const Graph* graph) { return HasWatched(*graph); });
  for (Graph* graph : graphs) {
    if (watched) {
      LeaveAutocastWhereOff(*graph);
      HoldAsWatched(*graph);
    } else {
      KeepVariables(*graph);
      KeepArguments(*graph, graph->block());
    }
  }
}

}  // namespace memmodel::step
