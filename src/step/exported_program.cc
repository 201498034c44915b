#include "src/step/exported_program.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>

#include "src/step/pt2_outputs.h"
#include "src/step/torch_compat.h"

namespace memmodel::step {
namespace {

bool IsChannelsLastCandidate(const at::Tensor& tensor) {
  return tensor.dim() == 4 || tensor.dim() == 5;  // Module.to's own test
}

// Strides that a tensor keeps when it is copied to a device: those of a dense
// tensor. Nothing for contiguous tensors and for expanded ones.
std::vector<std::int64_t> DenseStrides(const at::Tensor& tensor) {
  if (tensor.is_contiguous() || !tensor.is_non_overlapping_and_dense()) return {};
  return tensor.strides().vec();
}

// True for an expanded tensor without values of its own (StoredTensor).
bool IsHollow(const at::Tensor& tensor) {
  return tensor.numel() > 1 && tensor.storage().nbytes() <
                                   static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

}  // namespace

Result<std::unique_ptr<Model>> LoadExportedProgram(const std::string& path) {
  Result<Pt2Archive> archive = ReadPt2Archive(path);
  if (!archive.ok()) return archive.status();
  return ExportedProgramModel::Make(std::move(archive).value(), Lifetime::kVariable, path);
}

Result<std::unique_ptr<Model>> ExportedProgramModel::Make(Pt2Archive archive, Lifetime lifetime,
                                                          const std::string& path) {
  Result<Instructions> compiled = CompileProgram(archive.program, lifetime, path);
  if (!compiled.ok()) return compiled.status();
  std::unique_ptr<ExportedProgramModel> model(
      new ExportedProgramModel(std::move(compiled).value()));
  try {
    if (Status status = model->TakeInputs(archive, path); !status.ok()) return status;
    model->program_ = std::move(archive.program);
    model->program_.graph = {};
    model->FindFreshConstants();
    if (Status status = model->TakeOrder(path); !status.ok()) return status;
    model->FindRecurrentLayers();
    model->interpreter_.SetDevice(model->exported_device_, at::kCPU);
  } catch (const std::exception& error) {
    return Status::BadInput(path + ": " + FirstLine(error));
  }
  return std::unique_ptr<Model>(std::move(model));
}

Status ExportedProgramModel::TakeInputs(Pt2Archive& archive, const std::string& path) {
  const Program& program = archive.program;
  std::map<const c10::TensorImpl*, std::size_t> parameters;
  bool device_known = false;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const GraphInput& input = program.inputs[i];
    const int slot = interpreter_.instructions().inputs[i];
    if (slot == kNoSlot) continue;  // a plain number or None
    const TensorMeta& meta = program.graph.tensors.at(program.graph.inputs[i].text);
    if (!device_known && input.kind != InputKind::kConstant) {
      exported_device_ = meta.device_type;
      device_known = true;
    }
    if (input.kind == InputKind::kUser || input.kind == InputKind::kNumber) {
      if (meta.sizes.empty()) {
        return Status::Unknown(path + ": its input " + input.value +
                               " is a single number, which has no batch dimension; such programs "
                               "are not run yet");
      }
      inputs_.push_back({input.value, slot, meta});
      continue;
    }
    // A buffer that is not persistent is kept with the constants.
    StoredTensor stored;
    const auto in_state = archive.state.find(input.target);
    const auto in_constants = archive.constants.find(input.target);
    if (in_state != archive.state.end()) {
      stored = in_state->second;
    } else if (in_constants != archive.constants.end()) {
      stored = in_constants->second;
    } else {
      stored.tensor = HollowTensor(meta);
    }
    State state;
    state.name = input.target;
    state.kind = input.kind;
    state.slots = {slot};
    state.has_values = stored.has_values;
    // A tensor of its own and no view: autocast keeps casts of parameters, not of views.
    state.tensor = stored.tensor.variable_data();
    if (input.kind == InputKind::kParameter) {
      const auto [it, added] =
          parameters.try_emplace(stored.tensor.unsafeGetTensorImpl(), states_.size());
      if (!added) {  // tied: another name for the same parameter
        states_[it->second].slots.push_back(slot);
        continue;
      }
      state.strides = DenseStrides(state.tensor);
      state.tensor.set_requires_grad(meta.requires_grad);
    } else {
      state.strides = DenseStrides(state.tensor);
    }
    states_.push_back(std::move(state));
  }
  if (inputs_.empty()) {
    return Status::BadInput(path + ": its graph takes no tensor, so it has no batch");
  }
  if (program.argument_names.size() == inputs_.size()) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].name = program.argument_names[i];
  }
  for (const State& state : states_) {
    for (const int slot : state.slots) interpreter_.Bind(slot, state.tensor);
  }
  return Status::Ok();
}

// A tensor constant stays on the CPU if all that forward does with it is
// torch.tensor(...) or a move to a device; as an operand of anything else it has to
// be where the other operands are.
void ExportedProgramModel::FindFreshConstants() {
  std::set<int> elsewhere;
  for (const Instruction& instruction : interpreter_.instructions().list) {
    const bool moves = instruction.kind == Instruction::Kind::kFreshTensor ||
                       (instruction.op && instruction.op->schema().name() == "aten::to" &&
                        std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                    [](const Operand& operand) {
                                      return operand.kind == Operand::Kind::kDevice;
                                    }));
    if (moves) continue;
    for (const Operand& operand : instruction.operands) {
      if (operand.kind == Operand::Kind::kSlot) elsewhere.insert(operand.slot);
      for (const Operand& item : operand.items) elsewhere.insert(item.slot);
    }
  }
  for (State& state : states_) {
    if (state.kind != InputKind::kConstant) continue;
    state.stays_on_cpu = std::none_of(state.slots.begin(), state.slots.end(),
                                      [&](int slot) { return elsewhere.count(slot) != 0; });
  }
}

Status ExportedProgramModel::TakeOrder(const std::string& path) {
  std::vector<TreeTensor> tensors;
  std::vector<int> state_of;
  std::vector<int> constants;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].kind == InputKind::kConstant) {
      constants.push_back(static_cast<int>(i));
      continue;
    }
    tensors.push_back({states_[i].name, states_[i].kind == InputKind::kParameter});
    state_of.push_back(static_cast<int>(i));
  }
  Result<std::vector<ApplyStep>> order = ApplyOrder(program_.modules, tensors);
  if (!order.ok()) {
    return Status(order.status().code(), path + ": " + order.status().message());
  }
  order_ = std::move(order).value();
  for (ApplyStep& step : order_) {
    if (step.tensor >= 0) step.tensor = state_of[static_cast<std::size_t>(step.tensor)];
  }
  // Module.to knows nothing of constants; they come last.
  for (const int constant : constants) order_.push_back({constant, ""});
  return Status::Ok();
}

void ExportedProgramModel::Replace(State& state, at::Tensor tensor) {
  if (state.kind == InputKind::kParameter) {
    state.tensor.set_data(tensor);  // as Module._apply: the object stays
  } else {
    state.tensor = std::move(tensor);
    for (const int slot : state.slots) interpreter_.Bind(slot, state.tensor);
  }
}

template <typename Change>
void ExportedProgramModel::Apply(Change change) {
  const c10::AutoGradMode no_grad(false);
  for (const ApplyStep& step : order_) {
    if (step.tensor >= 0) {
      State& state = states_[static_cast<std::size_t>(step.tensor)];
      if (!state.stays_on_cpu) change(state);
      continue;
    }
    for (const Recurrent& layer : recurrent_) {
      if (layer.module == step.module) JoinWeights(layer);
    }
  }
}

void ExportedProgramModel::To(at::Device device) {
  Apply([&](State& state) {
    const at::Tensor& old = state.tensor;
    const bool hollow = !state.has_values && IsHollow(old);
    if (!hollow) {
      if (old.device() != device) Replace(state, old.to(device));
      return;
    }
    const auto options = old.options().device(device).requires_grad(false);
    if (channels_last_ && IsChannelsLastCandidate(old)) {
      Replace(state, at::empty(old.sizes(), options, at::MemoryFormat::ChannelsLast));
    } else if (!state.strides.empty()) {
      Replace(state, at::empty_strided(old.sizes(), state.strides, options));
    } else {
      Replace(state, at::empty(old.sizes(), options));
    }
  });
  device_ = device;
  interpreter_.SetDevice(exported_device_, device);
}

void ExportedProgramModel::ToChannelsLast() {
  if (device_ == at::kCPU) channels_last_ = true;
  Apply([&](State& state) {
    const at::Tensor& old = state.tensor;
    if (state.kind == InputKind::kConstant || !IsChannelsLastCandidate(old) || IsHollow(old))
      return;
    Replace(state, old.to(old.options().requires_grad(false), /*non_blocking=*/false,
                          /*copy=*/false, at::MemoryFormat::ChannelsLast));
  });
}

void ExportedProgramModel::ToDtype(at::ScalarType dtype) {
  Apply([&](State& state) {
    const at::Tensor& old = state.tensor;
    if (state.kind == InputKind::kConstant || !old.is_floating_point()) return;
    const bool hollow = !state.has_values && IsHollow(old);
    Replace(state, hollow
                       ? at::zeros({1}, old.options().dtype(dtype).requires_grad(false))
                             .as_strided(old.sizes(), std::vector<std::int64_t>(
                                                          static_cast<std::size_t>(old.dim()), 0))
                       : old.to(dtype));
  });
}

std::vector<NamedTensor> ExportedProgramModel::Parameters() const {
  std::vector<NamedTensor> parameters;
  for (const State& state : states_) {
    if (state.kind == InputKind::kParameter) parameters.push_back({state.name, state.tensor});
  }
  return parameters;
}

std::vector<NamedTensor> ExportedProgramModel::Buffers() const {
  std::vector<NamedTensor> buffers;
  for (const State& state : states_) {
    if (state.kind == InputKind::kBuffer) buffers.push_back({state.name, state.tensor});
  }
  return buffers;
}

c10::IValue ExportedProgramModel::Forward(const std::vector<at::Tensor>& given) {
  CheckInputs(given);
  std::vector<std::pair<int, at::Tensor>> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) inputs.emplace_back(inputs_[i].slot, given[i]);
  std::vector<c10::IValue> values = interpreter_.Run(std::move(inputs));

  // What a functional graph wrote anew is written back.
  std::vector<c10::IValue> outputs;
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    const GraphOutput& output = program_.outputs[i];
    if (output.kind == OutputKind::kUser || output.kind == OutputKind::kLoss) {
      outputs.push_back(std::move(values[i]));
      continue;
    }
    const c10::AutoGradMode no_grad(false);
    at::Tensor target;
    for (const State& state : states_) {
      if (output.kind == OutputKind::kBufferMutation && state.name == output.target) {
        target = state.tensor;
      }
    }
    for (std::size_t j = 0; j < inputs_.size(); ++j) {
      if (output.kind == OutputKind::kInputMutation && inputs_[j].name == output.target) {
        target = given[j];
      }
    }
    if (target.defined()) target.copy_(values[i].toTensor());
    values[i] = {};
  }
  return BuildOutputs(program_.output_tree, std::move(outputs));
}

}  // namespace memmodel::step
