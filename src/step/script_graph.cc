#include "src/step/script_graph.h"

#include <ATen/ops/_cudnn_rnn_flatten_weight.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/slice.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/step/script_lifetime.h"

namespace memmodel::step {
namespace {

using torch::jit::AttributeKind;
using torch::jit::Block;
using torch::jit::Node;

template <typename Fn>
void VisitNodes(Block* block, const Fn& fn) {
  for (Node* node : block->nodes()) {
    fn(node);
    for (Block* inner : node->blocks()) VisitNodes(inner, fn);
  }
}

template <typename Fn>
void VisitFunctions(const std::vector<torch::jit::Function*>& functions, const Fn& fn) {
  for (torch::jit::Function* function : functions) {
    if (auto* graph_function = torch::jit::tryToGraphFunction(*function)) {
      VisitNodes(graph_function->graph()->block(), fn);
    }
  }
}

// Every function that the archive brought: methods of all modules and classes.
template <typename Fn>
void VisitAll(const torch::jit::Module& module, const Fn& fn) {
  VisitFunctions(module._ivalue()->compilation_unit()->get_functions(), fn);
}

bool IsConstant(const Node* node) {
  return node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value);
}

// Whether an aten::to names a device.
bool MovesToDevice(const Node* node) {
  return std::any_of(node->inputs().begin(), node->inputs().end(), [](const auto* input) {
    return input->type()->kind() == c10::TypeKind::DeviceObjType;
  });
}

// aten::index takes indices on the CPU; aten::to may be the graph's own move.
bool TakesCpuTensor(const Node* user) {
  static const auto kTo = c10::Symbol::fromQualString("aten::to");
  static const auto kIndex = c10::Symbol::fromQualString("aten::index");
  if (user->kind() == kTo) return MovesToDevice(user);
  if (user->kind() == kIndex) return true;
  if (user->kind() != c10::prim::ListConstruct) return false;
  return std::all_of(user->output()->uses().begin(), user->output()->uses().end(),
                     [](const torch::jit::Use& use) { return use.user->kind() == kIndex; });
}

}  // namespace

std::vector<torch::jit::Function*> CalledFunctions(const torch::jit::Module& module,
                                                   const std::string& method) {
  static const auto kCheckpoint = c10::Symbol::fromQualString("memmodel::checkpoint");
  std::vector<torch::jit::Function*> called{&module.get_method(method).function()};
  for (std::size_t i = 0; i < called.size(); ++i) {
    auto* function = torch::jit::tryToGraphFunction(*called[i]);
    if (function == nullptr) continue;
    VisitNodes(function->graph()->block(), [&](const Node* node) {
      torch::jit::Function* next = nullptr;
      if (node->kind() == c10::prim::CallMethod) {
        next = node->input(0)->type()->expectRef<c10::ClassType>().findMethod(
            node->s(c10::attr::name));
      } else if (node->kind() == c10::prim::CallFunction) {
        next = node->input(0)->type()->expectRef<c10::FunctionType>().function();
      } else if (node->kind() == kCheckpoint) {  // the method's name, the module, its arguments
        next = node->input(1)->type()->expectRef<c10::ClassType>().findMethod(
            torch::jit::toIValue(node->input(0)).value().toStringRef());
      }
      if (next != nullptr && std::find(called.begin(), called.end(), next) == called.end()) {
        called.push_back(next);
      }
    });
  }
  return called;
}

void RewriteDevices(const torch::jit::Module& module) {
  VisitAll(module, [](Node* node) {
    if (IsConstant(node) && node->output()->type()->kind() == c10::TypeKind::DeviceObjType &&
        node->kindOf(c10::attr::value) == AttributeKind::s) {
      node->s_(c10::attr::value, "cuda:0");
    }
  });
}

namespace {

at::Tensor SliceUnlessFull(torch::jit::Stack& stack) {
  const std::int64_t step = torch::jit::pop(stack).toInt();
  const auto end = torch::jit::pop(stack).toOptional<std::int64_t>();
  const auto start = torch::jit::pop(stack).toOptional<std::int64_t>();
  const std::int64_t dim = torch::jit::pop(stack).toInt();
  at::Tensor self = torch::jit::pop(stack).toTensor();
  const bool full = start.value_or(0) == 0 && step == 1 && (!end || self.size(dim) <= *end);
  return full ? self : at::slice(self, dim, start, end, step);
}

const torch::jit::RegisterOperators kRegistered(
    {torch::jit::Operator(
         "memmodel::slice(Tensor(a) self, int dim, int? start, int? end, int step) -> Tensor(a)",
         [](torch::jit::Stack& stack) { torch::jit::push(stack, SliceUnlessFull(stack)); },
         c10::AliasAnalysisKind::FROM_SCHEMA),
     // The last of those of one pair of brackets, `indexed[...]`, whose result is never
     // `indexed` itself.
     torch::jit::Operator(
         "memmodel::last_slice(Tensor(a) indexed, Tensor(a) self, int dim, int? start, int? end, "
         "int step) -> Tensor(a)",
         [](torch::jit::Stack& stack) {
           at::Tensor result = SliceUnlessFull(stack);
           const at::Tensor indexed = torch::jit::pop(stack).toTensor();
           torch::jit::push(stack, result.is_same(indexed) ? at::alias(indexed) : result);
         },
         c10::AliasAnalysisKind::FROM_SCHEMA)});

// What the brackets whose last slice is `slice` are put behind, where that is known: the
// values in between have no names in a graph whose values are watched.
torch::jit::Value* Indexed(Node* slice) {
  if (!IsWatched(slice->output())) return nullptr;
  torch::jit::Value* value = slice->input(0);
  for (;;) {
    const std::string_view kind = value->node()->kind().toQualString();
    const bool inside =
        kind == "aten::slice" || kind == "aten::select" || kind == "aten::unsqueeze";
    if (IsWatched(value) || !inside) return value;
    value = value->node()->input(0);
  }
}

// A slice of the first dimension is of one in brackets alone, as far as is known.
bool InTuple(const Node* slice) {
  const auto dim = torch::jit::constant_as<std::int64_t>(slice->input(1));
  if (!dim || *dim != 0) return dim.has_value();
  static const auto kSelect = c10::Symbol::fromQualString("aten::select");
  const auto& uses = slice->output()->uses();
  return std::any_of(uses.begin(), uses.end(), [slice](const torch::jit::Use& use) {
    if (use.user->kind() != slice->kind() && use.user->kind() != kSelect) return false;
    return torch::jit::constant_as<std::int64_t>(use.user->input(1)).value_or(0) > 0;
  });
}

}  // namespace

void RemoveFullSlices(const torch::jit::Module& module) {
  static const auto kSlice = c10::Symbol::fromQualString("aten::slice");
  static const auto kUnlessFull = c10::Symbol::fromQualString("memmodel::slice");
  static const auto kLast = c10::Symbol::fromQualString("memmodel::last_slice");
  std::vector<Node*> full, maybe, last;
  VisitAll(module, [&](Node* node) {
    // (self, dim, start, end, step); slices of lists have no dim
    if (node->kind() != kSlice || node->inputs().size() != 5 ||
        node->input(0)->type()->kind() != c10::TypeKind::TensorType) {
      return;
    }
    const auto is = [&](std::size_t i, std::int64_t number) {
      const std::optional<c10::IValue> value = torch::jit::toIValue(node->input(i));
      if (!value) return false;
      return (value->isNone() && i != 4) || (value->isInt() && value->toInt() == number);
    };
    if (const torch::jit::Value* indexed = Indexed(node)) {
      if (indexed != node->input(0) || !is(1, 0)) last.push_back(node);
    } else if (is(2, 0) && is(3, std::numeric_limits<std::int64_t>::max()) && is(4, 1)) {
      full.push_back(node);
    } else if (InTuple(node)) {
      maybe.push_back(node);
    }
  });
  const auto replace = [](Node* node, c10::Symbol kind, at::ArrayRef<torch::jit::Value*> inputs) {
    Node* slice = node->owningGraph()->create(kind, inputs, 1)->insertBefore(node);
    slice->copyMetadata(node);
    slice->output()->copyMetadata(node->output());
    node->output()->replaceAllUsesWith(slice->output());
    node->destroy();
  };
  for (Node* node : last) {
    std::vector<torch::jit::Value*> inputs{Indexed(node)};
    for (torch::jit::Value* input : node->inputs()) inputs.push_back(input);
    replace(node, kLast, inputs);
  }
  for (Node* node : maybe) replace(node, kUnlessFull, node->inputs());
  for (Node* node : full) {
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

namespace {

// The tensor constant of `node` that has to move; nullptr if it is none.
bool HasToMove(const Node* node) {
  if (!IsConstant(node) || node->kindOf(c10::attr::value) != AttributeKind::t) return false;
  const at::Tensor& tensor = node->t(c10::attr::value);
  if (!tensor.device().is_cpu() || tensor.dim() == 0) return false;
  const auto& uses = node->output()->uses();
  return !std::all_of(uses.begin(), uses.end(),
                      [](const torch::jit::Use& use) { return TakesCpuTensor(use.user); });
}

}  // namespace

bool HasConstantsToMove(const torch::jit::Module& module, const std::string& method) {
  bool found = false;
  VisitFunctions(CalledFunctions(module, method),
                 [&](const Node* node) { found = found || HasToMove(node); });
  return found;
}

void MoveConstants(const torch::jit::Module& module, const std::string& method, at::Device device) {
  VisitFunctions(CalledFunctions(module, method), [device](Node* node) {
    if (HasToMove(node)) node->t_(c10::attr::value, node->t(c10::attr::value).to(device));
  });
}

void FlattenRecurrentWeights(const torch::jit::Module& module) {
  const std::string name = module.type()->name() ? module.type()->name()->qualifiedName() : "";
  if (name.find("torch.nn.modules.rnn.") == std::string::npos) return;
  const auto weight = [&](const std::string& attribute) -> std::optional<at::Tensor> {
    if (!module.hasattr(attribute) || !module.attr(attribute).isTensor()) return std::nullopt;
    return module.attr(attribute).toTensor();
  };
  std::vector<at::Tensor> weights;
  std::int64_t layers = 0;
  std::int64_t per_layer = 0;
  bool bidirectional = false;
  for (;; ++layers) {
    const std::string layer = "_l" + std::to_string(layers);
    if (!weight("weight_ih" + layer)) break;
    for (const std::string& direction : {std::string(), std::string("_reverse")}) {
      std::int64_t count = 0;
      for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"}) {
        const auto tensor = weight(part + layer + direction);
        if (!tensor) continue;
        if (!tensor->is_cuda()) return;
        weights.push_back(*tensor);
        ++count;
      }
      if (count == 0) continue;
      per_layer = count;
      bidirectional = bidirectional || !direction.empty();
    }
  }
  if (weights.size() < 2) return;
  // cudnnRNNMode_t, as torch/backends/cudnn/rnn.py maps it; tanh and relu need the same.
  const bool lstm = name.ends_with(".LSTM");
  const std::int64_t mode = lstm ? 2 : name.ends_with(".GRU") ? 3 : 1;
  const std::int64_t gates = lstm ? 4 : mode == 3 ? 3 : 1;
  const std::int64_t hidden = weights[1].size(0) / gates;
  const std::int64_t projected = weights[1].size(1) == hidden ? 0 : weights[1].size(1);
  at::_cudnn_rnn_flatten_weight(weights, per_layer, weights[0].size(1), mode, hidden, projected,
                                layers, /*batch_first=*/false, bidirectional);
}

}  // namespace memmodel::step
