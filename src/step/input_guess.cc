#include "src/step/input_guess.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_set>

namespace memmodel::step {
namespace {

using torch::jit::Node;
using torch::jit::Value;

constexpr int kMostNodes = 4000;

// The tensor that a chain of prim::GetAttr from self reaches.
std::optional<at::Tensor> WeightOf(const torch::jit::Module& module, const Value* value) {
  std::vector<std::string> path;
  while (value->node()->kind() == c10::prim::GetAttr) {
    path.push_back(value->node()->s(c10::attr::name));
    value = value->node()->input();
  }
  if (path.empty()) return std::nullopt;
  c10::IValue at = module._ivalue();
  for (auto name = path.rbegin(); name != path.rend(); ++name) {
    if (!at.isObject() || !at.toObjectRef().type()->hasAttribute(*name)) return std::nullopt;
    at = at.toObjectRef().getAttr(*name);
  }
  if (!at.isTensor() || !at.toTensor().defined()) return std::nullopt;
  return at.toTensor();
}

// The nearest tensor of `dims` dimensions that `value` is computed from: the weight itself, or what
// a layer standardises or normalises into one (weight_norm, timm's ScaledStdConv2d).
std::optional<at::Tensor> WeightBehind(const torch::jit::Module& module, const Value* value,
                                       std::int64_t dims) {
  std::deque<const Value*> queue{value};
  for (int steps = 0; !queue.empty() && steps < kMostNodes; ++steps) {
    const Value* next = queue.front();
    queue.pop_front();
    const auto weight = WeightOf(module, next);
    if (weight && weight->dim() == dims) return weight;
    if (next->node()->kind() == c10::prim::GetAttr) continue;
    for (const Value* input : next->node()->inputs()) queue.push_back(input);
  }
  return std::nullopt;
}

// 1, 2 or 3, from the strides that a convolution is given; 0 if they are not constants.
std::int64_t SpatialDims(const Node* convolution) {
  const auto stride = torch::jit::constant_as<c10::List<std::int64_t>>(convolution->input(3));
  if (stride) return static_cast<std::int64_t>(stride->size());
  const Node* list = convolution->input(3)->node();
  return list->kind() == c10::prim::ListConstruct ? static_cast<std::int64_t>(list->inputs().size())
                                                  : 0;
}

struct Guess {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::vector<std::int64_t>> shapes;
};

Guess ForChannels(std::int64_t channels, std::int64_t spatial_dims) {
  Guess guess;
  if (spatial_dims == 1) {
    for (const std::int64_t n : {1024, 16000, 128}) guess.shapes.push_back({channels, n});
  } else if (spatial_dims == 2) {
    for (const std::int64_t n : {224, 256, 32, 28, 64, 299, 384, 512}) {
      guess.shapes.push_back({channels, n, n});
    }
  } else {
    guess.shapes.push_back({channels, 16, 112, 112});
    for (const std::int64_t n : {64, 32}) guess.shapes.push_back({channels, n, n, n});
  }
  return guess;
}

// What `node` says about its first input; nullopt if nothing.
std::optional<Guess> FromOperator(const torch::jit::Module& module, const Node* node,
                                  const Value* input) {
  const std::string op = node->kind().toQualString();
  const auto weight_at = [&](std::size_t i) -> std::optional<at::Tensor> {
    return i < node->inputs().size() ? WeightOf(module, node->input(i)) : std::nullopt;
  };
  if (op == "aten::embedding") {  // (weight, indices)
    if (node->input(1) != input) return std::nullopt;
    Guess guess;
    guess.dtype = at::kLong;
    for (const std::int64_t n : {512, 256, 128, 77, 64, 16, 1}) guess.shapes.push_back({n});
    return guess;
  }
  if (node->inputs().empty() || node->input(0) != input) return std::nullopt;
  if (op == "aten::conv1d" || op == "aten::conv2d" || op == "aten::conv3d" ||
      op == "aten::_convolution" || op == "aten::convolution") {
    const auto weight = WeightBehind(module, node->input(1), SpatialDims(node) + 2);
    if (!weight) return std::nullopt;
    const auto groups = torch::jit::constant_as<std::int64_t>(
        op.find("_convolution") != std::string::npos || op == "aten::convolution" ? node->input(8)
                                                                                  : node->input(6));
    return ForChannels(weight->size(1) * groups.value_or(1), weight->dim() - 2);
  }
  if (op == "aten::linear" || op == "aten::matmul") {
    const auto weight = weight_at(1);
    if (!weight || weight->dim() != 2) return std::nullopt;
    const std::int64_t features = op == "aten::linear" ? weight->size(1) : weight->size(0);
    Guess guess;
    guess.shapes = {{features}, {128, features}};
    return guess;
  }
  if (op == "aten::lstm" || op == "aten::gru" || op == "aten::rnn_tanh" || op == "aten::rnn_relu") {
    // (input, hx, params, ...): the first parameter is weight_ih, (gates, in_features)
    for (const Value* list : node->inputs()) {
      if (list->node()->kind() != c10::prim::ListConstruct || list->node()->inputs().empty())
        continue;
      const auto weight = WeightOf(module, list->node()->input(0));
      if (!weight || weight->dim() != 2) continue;
      Guess guess;
      guess.shapes = {{128, weight->size(1)}};
      return guess;
    }
  }
  if (op == "aten::batch_norm") {
    const auto weight = weight_at(1);
    if (!weight) return std::nullopt;
    Guess guess = ForChannels(weight->numel(), 2);
    guess.shapes.push_back({weight->numel()});
    return guess;
  }
  return std::nullopt;
}

std::optional<Guess> GuessInput(const torch::jit::Module& module, const Value* input) {
  std::deque<const Value*> queue{input};
  std::unordered_set<const Value*> seen{input};
  const auto follow = [&](const Value* value) {
    if (value->type()->kind() == c10::TypeKind::TensorType && seen.insert(value).second) {
      queue.push_back(value);
    }
  };
  for (int steps = 0; !queue.empty() && steps < kMostNodes; ++steps) {
    const Value* value = queue.front();
    queue.pop_front();
    for (const torch::jit::Use& use : value->uses()) {
      Node* user = use.user;
      if (auto guess = FromOperator(module, user, value)) return guess;
      if (user->kind() == c10::prim::Return) {
        // The end of an inner block: goes on as an output of the node that owns it.
        Node* owner = user->owningBlock()->owningNode();
        if (owner == nullptr) continue;
        const std::size_t skip = owner->kind() == c10::prim::Loop ? 1 : 0;
        if (use.offset >= skip && use.offset - skip < owner->outputs().size()) {
          follow(owner->output(use.offset - skip));
        }
        continue;
      }
      if (user->kind() == c10::prim::Loop && use.offset >= 2) {
        follow(user->blocks()[0]->inputs()[use.offset - 1]);
      }
      for (const Value* output : user->outputs()) follow(output);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<InputSpec>> GuessInputs(const torch::jit::Module& module) {
  const std::shared_ptr<torch::jit::Graph> graph = module.get_method("forward").graph()->copy();
  // Calls are inlined only while the optimizer is on (ConfigureTorch turns it off).
  const torch::jit::GraphOptimizerEnabledGuard optimize(true);
  torch::jit::Inline(*graph);
  const auto& schema = module.get_method("forward").function().getSchema();
  std::vector<std::string> names;
  std::vector<Guess> guesses;
  std::size_t most = 0;
  for (std::size_t i = 1; i < graph->inputs().size(); ++i) {  // 0 is self
    if (i < schema.arguments().size() && schema.arguments()[i].default_value()) break;
    std::optional<Guess> guess = GuessInput(module, graph->inputs()[i]);
    if (!guess) {
      // A mask beside tokens has their shape.
      if (guesses.empty() || guesses.front().dtype != at::kLong) return {};
      guess = guesses.front();
    }
    most = std::max(most, guess->shapes.size());
    guesses.push_back(*std::move(guess));
    names.push_back(i < schema.arguments().size() ? schema.arguments()[i].name() : "");
  }
  std::vector<std::vector<InputSpec>> candidates;
  for (std::size_t k = 0; k < most; ++k) {
    std::vector<InputSpec> inputs;
    for (std::size_t i = 0; i < guesses.size(); ++i) {
      const auto& shapes = guesses[i].shapes;
      inputs.push_back({names[i], shapes[std::min(k, shapes.size() - 1)], guesses[i].dtype});
    }
    candidates.push_back(std::move(inputs));
  }
  return candidates;
}

}  // namespace memmodel::step
