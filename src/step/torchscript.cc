// A network saved by torch.jit.save, scripted or traced.
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <unordered_set>
#include <utility>

#include "src/step/archive.h"
#include "src/step/checkpoint.h"
#include "src/step/input_guess.h"
#include "src/step/materialize.h"
#include "src/step/model.h"
#include "src/step/script_graph.h"
#include "src/step/script_lifetime.h"
#include "src/step/stored_inputs.h"
#include "src/step/torch_compat.h"

namespace memmodel::step {
namespace {

using torch::jit::Module;

// Calls fn(module, path) for `module` and all below. A module that is held in two
// places is visited in both, as Python's _apply does; of named_modules() only the
// order within one visit matters here.
template <typename Fn>
void VisitParentsFirst(const Module& module, const std::string& path, const Fn& fn) {
  fn(module, path);
  for (const auto& child : module.named_children()) {
    VisitParentsFirst(child.value, path.empty() ? child.name : path + "." + child.name, fn);
  }
}

template <typename Fn>
void VisitChildrenFirst(const Module& module, const Fn& fn) {
  for (const auto& child : module.named_children()) VisitChildrenFirst(child.value, fn);
  fn(module);
}

class TorchScriptModel : public Model {
 public:
  TorchScriptModel(Module module, std::vector<InputSpec> stored)
      : module_(std::move(module)), stored_(std::move(stored)) {
    RewriteDevices(module_);
    RemoveFullSlices(module_);
    KeepAsPythonDoes(module_);
  }

  // Module.parameters(): modules from the root down, each tensor once.
  [[nodiscard]] std::vector<NamedTensor> Parameters() const override {
    return Collect([](const c10::ClassType& type, std::size_t i) { return type.is_parameter(i); });
  }

  [[nodiscard]] std::vector<NamedTensor> Buffers() const override {
    return Collect([](const c10::ClassType& type, std::size_t i) { return type.is_buffer(i); });
  }

  void To(at::Device device) override {
    const at::NoGradGuard no_grad;
    DropWhatNetworksKeep();
    Apply([&](const at::Tensor& t) { return Materialize(t, device, dtype_); });
    if (!prepared_) MoveConstants(module_, forward_, device);
  }

  void ToChannelsLast() override {
    const at::NoGradGuard no_grad;
    Apply([](const at::Tensor& t) {
      return t.dim() == 4 || t.dim() == 5 ? t.to(t.options(), /*non_blocking=*/false,
                                                 /*copy=*/false, at::MemoryFormat::ChannelsLast)
                                          : t;
    });
  }

  void ToDtype(at::ScalarType dtype) override { dtype_ = dtype; }

  void SetTraining(bool training) override {
    module_.train(training);
    forward_ = !training && module_.find_method("infer") ? "infer" : "forward";
  }

  // Compiles the functions that run, which takes longer than running them. Not possible while
  // constants of the graphs have to move to the device first.
  void Prepare() override {
    if (HasConstantsToMove(module_, forward_)) return;
    prepared_ = true;
    torch::jit::Stack stack;
    for (torch::jit::Function* function : CalledFunctions(module_, forward_)) {
      auto* graph_function = torch::jit::tryToGraphFunction(*function);
      if (graph_function != nullptr) graph_function->get_executor().getPlanFor(stack);
    }
  }

  c10::IValue Forward(const std::vector<at::Tensor>& inputs) override {
    std::vector<c10::IValue> stack;
    stack.reserve(inputs.size());
    for (const at::Tensor& input : inputs) stack.emplace_back(input);
    const HeldValues held;
    return module_.get_method(forward_)(std::move(stack));
  }

  Status Checkpoint(const std::string& glob) override { return CheckpointModules(module_, glob); }

  [[nodiscard]] std::vector<InputSpec> StoredInputs() const override { return stored_; }

  [[nodiscard]] std::vector<std::vector<InputSpec>> InputCandidates() const override {
    return GuessInputs(module_);
  }

  [[nodiscard]] std::size_t InputCount() const override {
    std::size_t needed = 0;
    const auto& arguments = module_.get_method("forward").function().getSchema().arguments();
    for (std::size_t i = 1; i < arguments.size(); ++i) {  // 0 is the module, whatever its name
      needed += arguments[i].default_value() ? 0U : 1U;
    }
    return needed;
  }

  [[nodiscard]] std::string Kind() const override { return "torchscript"; }

 private:
  template <typename Predicate>
  [[nodiscard]] std::vector<NamedTensor> Collect(const Predicate& wanted) const {
    std::vector<NamedTensor> tensors;
    std::unordered_set<const c10::TensorImpl*> seen;
    VisitParentsFirst(module_, "", [&](const Module& module, const std::string& path) {
      const c10::ClassType& type = *module.type();
      for (std::size_t i = 0; i < type.numAttributes(); ++i) {
        const c10::IValue& slot = module._ivalue()->getSlot(i);
        if (!wanted(type, i) || !slot.isTensor() || !slot.toTensor().defined()) continue;
        if (!seen.insert(slot.toTensor().unsafeGetTensorImpl()).second) continue;
        tensors.push_back(
            {path.empty() ? type.getAttributeName(i) : path + "." + type.getAttributeName(i),
             slot.toTensor()});
      }
    });
    return tensors;
  }

  // Module._apply of torch/nn/modules/module.py: children first; then the module's
  // own parameters, changed in place; then its buffers, replaced one by one (a
  // buffer held in two places becomes two). Plain tensor attributes come last:
  // Python would leave them where they are, where a network that has them fails.
  template <typename Fn>
  void Apply(const Fn& fn) {
    VisitChildrenFirst(module_, [&](const Module& module) {
      const c10::ClassType& type = *module.type();
      const auto each = [&](const auto& wanted, const auto& change) {
        for (std::size_t i = 0; i < type.numAttributes(); ++i) {
          const c10::IValue slot = module._ivalue()->getSlot(i);
          if (!slot.isTensor() || !slot.toTensor().defined() || !wanted(i)) continue;
          change(i, slot.toTensor());
        }
      };
      each([&](std::size_t i) { return type.is_parameter(i); },
           [&](std::size_t, at::Tensor parameter) { parameter.set_data(fn(parameter)); });
      each([&](std::size_t i) { return !type.is_parameter(i) && type.is_buffer(i); },
           [&](std::size_t i, const at::Tensor& t) { module._ivalue()->setSlot(i, fn(t)); });
      each([&](std::size_t i) { return !type.is_parameter(i) && !type.is_buffer(i); },
           [&](std::size_t i, const at::Tensor& t) { module._ivalue()->setSlot(i, fn(t)); });
      FlattenRecurrentWeights(module);
    });
  }

  Module module_;
  std::vector<InputSpec> stored_;
  std::optional<at::ScalarType> dtype_;
  std::string forward_ = "forward";  // a traced file may have another method for evaluation
  bool prepared_ = false;
};

}  // namespace

Result<std::unique_ptr<Model>> LoadTorchScript(const std::string& path, const Archive& archive) {
  try {
    torch::jit::ExtraFilesMap extra{{std::string(kStoredInputsFile), ""}};
    Module module = torch::jit::load(archive.file, at::kCPU, extra, /*load_debug_files=*/false);
    if (!module.find_method("forward")) {
      return Status::BadInput(path + " holds a module without a forward method");
    }
    Result<std::vector<InputSpec>> stored =
        ParseStoredInputs(extra[std::string(kStoredInputsFile)]);
    if (!stored.ok()) return Status::BadInput(path + ": " + stored.status().message());
    return std::unique_ptr<Model>(
        std::make_unique<TorchScriptModel>(std::move(module), std::move(stored.value())));
  } catch (const std::exception& e) {
    return Status::BadInput(path + " cannot be loaded as TorchScript: " + FirstLine(e));
  }
}

}  // namespace memmodel::step
