// As Python does it: the forward run packs each saved tensor into an empty holder; the
// first unpack runs the call again with gradients recorded and packs into the holders,
// in the same order, until all have one (early_stop); each unpack empties its holder.
#include "src/step/checkpoint.h"

#include <c10/core/GradMode.h>
#include <fnmatch.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <exception>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/step/autocast.h"
#include "src/step/script_lifetime.h"
#include "src/tracer/operator_log.h"

namespace memmodel::step {
namespace {

using torch::autograd::SavedVariableHooks;
using torch::jit::Block;
using torch::jit::Node;

// Ends the second run once nothing more is needed of it.
struct StopRecomputation : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "recomputation is complete"; }
};

struct Holder {
  at::Tensor value;
};

struct Place {  // of a checkpointed module in the network
  std::string type;
  std::string path;
};

// One checkpointed call. Lives as long as a saved tensor of its graph does.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(torch::jit::Function& function, std::vector<c10::IValue> arguments, const Place& place)
      : function_(function),
        arguments_(std::move(arguments)),
        place_(place),
        autocast_(at::autocast::is_autocast_enabled(at::kCUDA)),
        dtype_(at::autocast::get_autocast_dtype(at::kCUDA)) {}

  c10::IValue Run(bool again);

  std::shared_ptr<Holder> Hold() {
    auto holder = std::make_shared<Holder>();
    holders_.push_back(holder);
    return holder;
  }

  // Returns what the second run's own graph keeps.
  at::Tensor Store(const at::Tensor& tensor) {
    at::Tensor value = tensor.requires_grad() ? tensor.detach() : tensor;
    if (next_ < holders_.size()) {
      if (const auto holder = holders_[next_].lock()) holder->value = value;
    }
    if (++next_ == holders_.size()) throw StopRecomputation();
    return value;
  }

  at::Tensor Take(Holder& holder) {
    if (!recomputed_) Recompute();
    TORCH_CHECK(holder.value.defined(), "checkpoint: the second run of ", place_.path,
                " saved other tensors than the first");
    return std::exchange(holder.value, {});
  }

 private:
  void Recompute() {
    recomputed_ = true;
    const Autocast autocast(at::kCUDA, autocast_, dtype_);
    const at::AutoGradMode grad(true);
    const HeldValues held;
    try {
      Run(/*again=*/true);
    } catch (const std::exception&) {  // TorchScript throws its own for ours
      if (next_ < holders_.size()) throw;
    }
  }

  torch::jit::Function& function_;
  std::vector<c10::IValue> arguments_;
  const Place& place_;
  bool autocast_;
  at::ScalarType dtype_;
  std::vector<std::weak_ptr<Holder>> holders_;
  std::size_t next_ = 0;
  bool recomputed_ = false;
};

// The call that runs in this thread.
thread_local Frame* running = nullptr;
thread_local bool running_again = false;

class Hooks : public SavedVariableHooks {
 public:
  Hooks(std::shared_ptr<Frame> frame, bool again) : frame_(std::move(frame)), again_(again) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    if (again_) {
      value_ = frame_->Store(tensor);
    } else {
      holder_ = frame_->Hold();
    }
  }
  at::Tensor call_unpack_hook() override { return again_ ? value_ : frame_->Take(*holder_); }

 private:
  std::shared_ptr<Frame> frame_;
  bool again_;
  std::shared_ptr<Holder> holder_;
  at::Tensor value_;
};

c10::IValue Frame::Run(bool again) {
  struct Restore {
    Frame* frame = running;
    bool again = running_again;
    ~Restore() {
      running = frame;
      running_again = again;
      tracer::SetModule("", "", /*inside=*/false);
    }
  } const restore;
  running = this;
  running_again = again;
  // TorchScript knows the module within a call, not around it.
  tracer::SetModule(place_.type, place_.path);
  return function_(arguments_);
}

class Engine : public torch::autograd::Engine {
 public:
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (running == nullptr) return nullptr;
    return std::make_unique<Hooks>(running->shared_from_this(), running_again);
  }
};

torch::autograd::Engine& TheEngine() {
  static auto* engine = new Engine;  // its threads outlive main
  return *engine;
}

std::unordered_map<const c10::ivalue::Object*, Place>& Places() {
  static std::unordered_map<const c10::ivalue::Object*, Place> places;
  return places;
}

// memmodel::checkpoint(method's name, module, arguments): the method's result.
void CallCheckpointed(torch::jit::Stack& stack) {
  const auto count = static_cast<std::size_t>(torch::jit::pop(stack).toInt());
  std::vector<c10::IValue> arguments = torch::jit::pop(stack, count);
  const std::string name = arguments.front().toStringRef();
  arguments.erase(arguments.begin());
  const auto object = arguments.front().toObject();
  torch::jit::Function& function = object->type()->getMethod(name);
  const auto place = Places().find(object.get());
  if (place == Places().end() || !c10::GradMode::is_enabled() || running != nullptr) {
    stack.push_back(function(std::move(arguments)));
    return;
  }
  stack.push_back(
      std::make_shared<Frame>(function, std::move(arguments), place->second)->Run(false));
}

const torch::jit::RegisterOperators kRegistered({torch::jit::Operator(
    "memmodel::checkpoint(...) -> ...", CallCheckpointed, c10::AliasAnalysisKind::CONSERVATIVE)});

void ReplaceCalls(Block* block, const std::unordered_set<const c10::Type*>& types) {
  static const auto kCheckpoint = c10::Symbol::fromQualString("memmodel::checkpoint");
  std::vector<Node*> calls;
  for (Node* node : block->nodes()) {
    for (Block* inner : node->blocks()) ReplaceCalls(inner, types);
    if (node->kind() == c10::prim::CallMethod && types.contains(node->input(0)->type().get())) {
      calls.push_back(node);
    }
  }
  for (Node* call : calls) {
    torch::jit::Graph& graph = *call->owningGraph();
    const torch::jit::WithInsertPoint here(call);
    std::vector<torch::jit::Value*> inputs{graph.insertConstant(call->s(c10::attr::name))};
    for (torch::jit::Value* input : call->inputs()) inputs.push_back(input);
    Node* node = graph.insertNode(graph.create(kCheckpoint, inputs, call->outputs().size()));
    for (std::size_t i = 0; i < call->outputs().size(); ++i) {
      node->output(i)->copyMetadata(call->output(i));
    }
    call->replaceAllUsesWith(node);
    call->destroy();
  }
}

}  // namespace

Status CheckpointModules(const torch::jit::Module& module, const std::string& glob) {
  std::unordered_set<const c10::Type*> types;
  std::string example;
  for (const auto& named : module.named_modules()) {
    if (named.name.find('.') != std::string::npos && example.empty()) example = named.name;
    if (named.name.empty() || fnmatch(glob.c_str(), named.name.c_str(), 0) != 0) continue;
    const c10::ClassTypePtr type = named.value.type();
    types.insert(type.get());
    Places()[named.value._ivalue().get()] = {type->name() ? type->name()->name() : "", named.name};
  }
  if (types.empty()) {
    return Status::InvalidArgument("--checkpoint " + glob + " matches no module" +
                                   (example.empty() ? "" : "; a module here is " + example));
  }
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    auto* graph_function = torch::jit::tryToGraphFunction(*function);
    if (graph_function != nullptr) ReplaceCalls(graph_function->graph()->block(), types);
  }
  torch::autograd::set_default_engine_stub(&TheEngine);
  return {};
}

}  // namespace memmodel::step
