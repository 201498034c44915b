#include "src/step/pt2_interpreter.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <optional>

#include "src/step/autocast.h"
#include "src/tracer/operator_log.h"

namespace memmodel::step {
namespace {

// torch.set_grad_enabled or torch.autocast around a part of the graph.
class Region {
 public:
  explicit Region(bool grad) : grad_mode_(std::in_place, grad) {}

  Region(at::DeviceType device, at::ScalarType dtype, bool enabled)
      : autocast_(std::in_place, device, enabled, dtype) {}

 private:
  std::optional<c10::AutoGradMode> grad_mode_;
  std::optional<Autocast> autocast_;
};

// Left in the reverse order of entering, after an error too.
struct Regions {
  std::vector<std::unique_ptr<Region>> open;
  ~Regions() {
    while (!open.empty()) open.pop_back();
  }
};

// Tells the tracer which module runs.
class ModuleReport {
 public:
  explicit ModuleReport(const std::vector<ModuleName>& modules) : modules_(modules) {}
  ~ModuleReport() {
    if (current_ >= 0) tracer::SetModule({}, {}, false);
  }
  void Enter(int module) {
    if (module == current_ || module < 0) return;
    current_ = module;
    const ModuleName& name = modules_[static_cast<std::size_t>(module)];
    tracer::SetModule(name.type, name.path);
  }

 private:
  const std::vector<ModuleName>& modules_;
  int current_ = -1;
};

c10::IValue AsWanted(const c10::IValue& value, Operand::Want want) {
  if (want == Operand::Want::kReal && !value.isDouble()) {
    return value.isBool() ? (value.toBool() ? 1.0 : 0.0) : static_cast<double>(value.toInt());
  }
  if (want == Operand::Want::kTensor && !value.isTensor()) {
    at::Tensor tensor = at::scalar_to_tensor(value.toScalar());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }
  return value;
}

}  // namespace

Interpreter::Interpreter(Instructions instructions)
    : instructions_(std::move(instructions)),
      values_(static_cast<std::size_t>(instructions_.slots)) {
  for (std::size_t i = 0; i < instructions_.list.size(); ++i) {
    const Instruction& instruction = instructions_.list[i];
    if (instruction.training_operand < 0) continue;
    const c10::IValue& value =
        instruction.operands[static_cast<std::size_t>(instruction.training_operand)].constant;
    training_values_.emplace_back(i, value);
    if (value.isBool() && value.toBool()) exported_in_training_ = true;
  }
}

void Interpreter::SetDevice(const std::string& exported_type, at::Device device) {
  device_ = device;
  for (Instruction& instruction : instructions_.list) {
    for (Operand& operand : instruction.operands) {
      if (operand.kind != Operand::Kind::kDevice) continue;
      if (operand.device_type == exported_type) {
        operand.constant = device;
      } else {
        at::Device own(operand.device_type);
        if (operand.device_index >= 0 && !own.is_cpu()) {
          own.set_index(static_cast<c10::DeviceIndex>(operand.device_index));
        }
        operand.constant = own;
      }
    }
  }
}

void Interpreter::Bind(int slot, c10::IValue value) {
  values_[static_cast<std::size_t>(slot)] = std::move(value);
}

void Interpreter::SetTraining(bool training) {
  training_ = training;
  for (const auto& [index, value] : training_values_) {
    Instruction& instruction = instructions_.list[index];
    Operand& operand = instruction.operands[static_cast<std::size_t>(instruction.training_operand)];
    if (training) {
      operand.constant = value;
    } else {
      operand.constant = value.isDouble() ? c10::IValue(0.0) : c10::IValue(false);
    }
  }
}

const c10::IValue& Interpreter::ValueOf(const Operand& operand) const {
  return operand.kind == Operand::Kind::kSlot ? values_[static_cast<std::size_t>(operand.slot)]
                                              : operand.constant;
}

c10::IValue Interpreter::ListValue(const Operand& operand) const {
  switch (operand.element) {
    case Operand::Element::kInt: {
      c10::List<std::int64_t> list;
      list.reserve(operand.items.size());
      for (const Operand& item : operand.items) list.push_back(ValueOf(item).toInt());
      return list;
    }
    case Operand::Element::kReal: {
      c10::List<double> list;
      for (const Operand& item : operand.items) {
        list.push_back(AsWanted(ValueOf(item), Operand::Want::kReal).toDouble());
      }
      return list;
    }
    case Operand::Element::kBool: {
      c10::List<bool> list;
      for (const Operand& item : operand.items) list.push_back(ValueOf(item).toBool());
      return list;
    }
    case Operand::Element::kTensor: {
      c10::List<at::Tensor> list;
      list.reserve(operand.items.size());
      for (const Operand& item : operand.items) list.push_back(ValueOf(item).toTensor());
      return list;
    }
    case Operand::Element::kOptionalTensor: {
      c10::List<std::optional<at::Tensor>> list;
      for (const Operand& item : operand.items) {
        const c10::IValue& value = ValueOf(item);
        list.push_back(value.isNone() ? std::nullopt : std::optional<at::Tensor>(value.toTensor()));
      }
      return list;
    }
  }
  return {};
}

void Interpreter::Push(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kConstant:
    case Operand::Kind::kDevice:
      stack_.push_back(operand.constant);
      return;
    case Operand::Kind::kSlot: {
      const c10::IValue& value = values_[static_cast<std::size_t>(operand.slot)];
      if (operand.want == Operand::Want::kAsIs) {
        stack_.push_back(value);
      } else {
        stack_.push_back(AsWanted(value, operand.want));
      }
      return;
    }
    case Operand::Kind::kList:
      stack_.push_back(ListValue(operand));
      return;
  }
}

void Interpreter::StoreResults(const Instruction& instruction) {
  const std::vector<int>& results = instruction.results;
  const auto store = [&](std::size_t i, c10::IValue value) {
    if (results[i] != kNoSlot) values_[static_cast<std::size_t>(results[i])] = std::move(value);
  };
  if (instruction.results_are_list) {
    TORCH_CHECK(stack_.size() == 1 && stack_[0].isTensorList(), "expected a list of tensors");
    const c10::List<at::Tensor> list = std::move(stack_[0]).toTensorList();
    TORCH_CHECK(list.size() >= results.size(), "the graph expects ", results.size(),
                " tensors, the operator gave ", list.size());
    for (std::size_t i = 0; i < results.size(); ++i) store(i, list.get(i));
  } else {
    TORCH_CHECK(stack_.size() >= results.size(), "the graph expects ", results.size(), " results");
    for (std::size_t i = 0; i < results.size(); ++i) store(i, std::move(stack_[i]));
  }
}

void Interpreter::Execute(const Instruction& instruction) {
  if (instruction.counts_batches && !training_) {
    if (!instruction.results.empty() && instruction.results[0] != kNoSlot) {
      values_[static_cast<std::size_t>(instruction.results[0])] = ValueOf(instruction.operands[0]);
    }
    return;
  }
  stack_.clear();
  for (const Operand& operand : instruction.operands) Push(operand);
  switch (instruction.kind) {
    case Instruction::Kind::kOperator:
      instruction.op->callBoxed(stack_);
      break;
    case Instruction::Kind::kScalar: {
      c10::IValue result = instruction.scalar(stack_);
      stack_.clear();
      stack_.push_back(std::move(result));
      break;
    }
    case Instruction::Kind::kFreshTensor: {
      // torch.tensor(data, device=...) makes the data on the CPU and copies it: one
      // allocation on the device.
      const at::Tensor constant = std::move(stack_[0]).toTensor();
      const bool copy = instruction.flag || constant.device() == device_;
      stack_[0] = copy ? constant.clone() : constant.to(device_);
      break;
    }
    default:
      break;
  }
  StoreResults(instruction);
  stack_.clear();
}

std::vector<c10::IValue> Interpreter::Run(std::vector<std::pair<int, at::Tensor>> inputs) {
  // Whatever happens, nothing of this run stays behind.
  struct Cleaner {
    Interpreter& self;
    std::vector<int> slots;
    ~Cleaner() {
      self.stack_.clear();
      for (const int slot : slots) self.values_[static_cast<std::size_t>(slot)] = {};
      for (const Instruction& instruction : self.instructions_.list) {
        for (const int slot : instruction.results) {
          if (slot != kNoSlot) self.values_[static_cast<std::size_t>(slot)] = {};
        }
      }
    }
  } cleaner{*this, {}};
  for (auto& [slot, tensor] : inputs) {
    values_[static_cast<std::size_t>(slot)] = std::move(tensor);
    cleaner.slots.push_back(slot);
  }

  ModuleReport report(instructions_.modules);
  Regions regions;
  for (const Instruction& instruction : instructions_.list) {
    report.Enter(instruction.module);
    switch (instruction.kind) {
      case Instruction::Kind::kEnterGrad:
        regions.open.push_back(std::make_unique<Region>(instruction.flag));
        break;
      case Instruction::Kind::kEnterAutocast:
        regions.open.push_back(
            std::make_unique<Region>(instruction.operands[0].constant.toDevice().type(),
                                     instruction.dtype, instruction.flag));
        break;
      case Instruction::Kind::kLeave:
        regions.open.pop_back();
        break;
      default:
        Execute(instruction);
    }
    for (const int slot : instruction.releases) values_[static_cast<std::size_t>(slot)] = {};
  }
  std::vector<c10::IValue> outputs;
  outputs.reserve(instructions_.outputs.size());
  for (const Operand& output : instructions_.outputs) outputs.push_back(ValueOf(output));
  return outputs;
}

}  // namespace memmodel::step
