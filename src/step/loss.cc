#include "src/step/loss.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/class_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sum.h>

#include <utility>

namespace memmodel::step {
namespace {

using Members = std::vector<std::pair<std::string, c10::IValue>>;

// One level of a container: (key, value) pairs; empty for what is none.
Members MembersOf(const c10::IValue& value) {
  Members members;
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    const auto type = value.toTupleRef().type();
    const auto& schema = type->schema();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const bool named = schema != nullptr && i < schema->arguments().size();
      members.emplace_back(named ? schema->arguments()[i].name() : std::to_string(i), elements[i]);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      members.emplace_back(entry.key().isString() ? entry.key().toStringRef() : "", entry.value());
    }
  } else if (value.isList()) {
    const auto list = value.toList();
    for (std::size_t i = 0; i < list.size(); ++i)
      members.emplace_back(std::to_string(i), list.get(i));
  } else if (value.isObject()) {
    const auto& object = value.toObjectRef();
    for (std::size_t i = 0; i < object.type()->numAttributes(); ++i) {
      members.emplace_back(object.type()->getAttributeName(i), object.getSlot(i));
    }
  }
  return members;
}

bool IsTensor(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

// The member that a training script would use: its loss, then its logits.
Result<std::pair<std::string, at::Tensor>> Choose(const c10::IValue& output) {
  if (IsTensor(output)) return std::pair(std::string(), output.toTensor());
  const Members members = MembersOf(output);
  for (const char* wanted : {"loss", "logits", "out", "last_hidden_state"}) {
    for (const auto& [name, value] : members) {
      if (name == wanted && IsTensor(value)) return std::pair(name, value.toTensor());
    }
  }
  for (const auto& [name, value] : members) {
    if (IsTensor(value) && value.toTensor().is_floating_point()) {
      return std::pair(name, value.toTensor());
    }
  }
  return Status::Unknown("the network returns " + output.tagKind() +
                         ", in which no floating-point tensor was found to make a loss of; "
                         "export a network that returns its loss or its logits");
}

}  // namespace

Result<LossPlan> PlanLoss(const c10::IValue& output, const std::string& requested,
                          std::int64_t batch) {
  Result<std::pair<std::string, at::Tensor>> chosen = Choose(output);
  if (!chosen.ok()) return chosen.status();
  const auto& [member, tensor] = *chosen;
  LossPlan plan;
  plan.member = member;
  plan.batch = batch;
  plan.kind = requested;
  const bool scalar = tensor.numel() == 1 && tensor.dim() == 0;
  const bool logits = tensor.is_floating_point() && tensor.dim() >= 2 && tensor.size(1) > 1;
  if (requested == "auto") {
    plan.kind = scalar ? "output" : logits ? "ce" : "sum";
  } else if (requested == "output" && !scalar) {
    return Status::InvalidArgument("--loss output: the network's output has the shape " +
                                   c10::str(tensor.sizes()) + ", not a scalar; use ce, mse or sum");
  } else if (requested == "ce" && !logits) {
    return Status::InvalidArgument("--loss ce needs logits (N, C, ...); the output has the shape " +
                                   c10::str(tensor.sizes()));
  }
  if (plan.kind == "ce") {
    // Class indices: the output's shape without its class dimension.
    plan.target_shape = tensor.sizes().vec();
    plan.target_shape.erase(plan.target_shape.begin() + 1);
    plan.target_dtype = at::kLong;
  } else if (plan.kind == "mse") {
    plan.target_shape = tensor.sizes().vec();
    plan.target_dtype = at::kFloat;
  }
  return plan;
}

at::Tensor TakeMember(c10::IValue output, const LossPlan& plan) {
  if (plan.member.empty()) return std::move(output).toTensor();
  for (auto& [name, value] : MembersOf(output)) {
    if (name == plan.member) return value.toTensor();
  }
  TORCH_CHECK(false, "the output has no member '", plan.member, "' in this step");
}

at::Tensor ComputeLoss(const LossPlan& plan, const at::Tensor& output, const at::Tensor& target) {
  if (plan.kind == "ce") return at::cross_entropy_loss(output, target);
  if (plan.kind == "mse") return at::mse_loss(output, target);
  if (plan.kind == "sum") return output.sum();
  return output;
}

std::vector<at::Tensor> TensorsIn(const c10::IValue& value) {
  if (IsTensor(value)) return {value.toTensor()};
  std::vector<at::Tensor> tensors;
  for (const auto& [name, member] : MembersOf(value)) {
    for (at::Tensor& tensor : TensorsIn(member)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace memmodel::step
