#include "src/step/script_graph.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

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

// Every function that the archive brought: methods of all modules and classes.
template <typename Fn>
void VisitAll(const torch::jit::Module& module, const Fn& fn) {
  const auto visit = [&](torch::jit::Function* function) {
    if (auto* graph_function = torch::jit::tryToGraphFunction(*function)) {
      VisitNodes(graph_function->graph()->block(), fn);
    }
  };
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    visit(function);
  }
}

bool IsConstant(const Node* node) {
  return node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value);
}

// aten::index takes indices on the CPU; aten::to is the graph's own move.
bool TakesCpuTensor(const Node* user) {
  static const auto kTo = c10::Symbol::fromQualString("aten::to");
  static const auto kIndex = c10::Symbol::fromQualString("aten::index");
  if (user->kind() == kTo || user->kind() == kIndex) return true;
  if (user->kind() != c10::prim::ListConstruct) return false;
  return std::all_of(user->output()->uses().begin(), user->output()->uses().end(),
                     [](const torch::jit::Use& use) { return use.user->kind() == kIndex; });
}

}  // namespace

void RewriteDevices(const torch::jit::Module& module) {
  VisitAll(module, [](Node* node) {
    if (IsConstant(node) && node->output()->type()->kind() == c10::TypeKind::DeviceObjType &&
        node->kindOf(c10::attr::value) == AttributeKind::s) {
      node->s_(c10::attr::value, "cuda:0");
    }
  });
}

void MoveConstants(const torch::jit::Module& module, at::Device device) {
  VisitAll(module, [device](Node* node) {
    if (!IsConstant(node) || node->kindOf(c10::attr::value) != AttributeKind::t) return;
    const at::Tensor tensor = node->t(c10::attr::value);
    if (!tensor.device().is_cpu() || tensor.dim() == 0) return;
    const auto& uses = node->output()->uses();
    if (std::all_of(uses.begin(), uses.end(),
                    [](const torch::jit::Use& use) { return TakesCpuTensor(use.user); })) {
      return;
    }
    node->t_(c10::attr::value, tensor.to(device));
  });
}

}  // namespace memmodel::step
