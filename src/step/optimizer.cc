#include "src/step/optimizer.h"

#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <utility>

namespace memmodel::step {
namespace {

struct Known {
  std::string_view name;
  OptimizerMaker make;
};

constexpr std::array kKnown = {
    Known{"sgd", MakeSgd},         Known{"adam", MakeAdam},
    Known{"adamw", MakeAdamW},     Known{"rmsprop", MakeRmsprop},
    Known{"adagrad", MakeAdagrad}, Known{"adafactor", MakeAdafactor},
    Known{"nadam", MakeNAdam},     Known{"radam", MakeRAdam},
    Known{"adamax", MakeAdamax},   Known{"adadelta", MakeAdadelta},
    Known{"asgd", MakeAsgd},       Known{"rprop", MakeRprop},
    Known{"muon", MakeMuon},       Known{"custom", MakeCustom},
};

}  // namespace

const OptionValue* OptimizerOptions::Find(const std::string& name) {
  known_.insert(name);
  const auto it = spec_.options.find(name);
  return it == spec_.options.end() ? nullptr : &it->second;
}

void OptimizerOptions::WrongType(const std::string& name, const char* expected) {
  if (!status_.ok()) return;
  status_ = Status::InvalidArgument("optimizer " + spec_.name + ": option " + name + " expects " +
                                    expected);
}

double OptimizerOptions::Number(const std::string& name, double default_value) {
  const OptionValue* value = Find(name);
  if (value == nullptr) return default_value;
  if (const auto* number = std::get_if<double>(value)) return *number;
  WrongType(name, "a number");
  return default_value;
}

bool OptimizerOptions::Flag(const std::string& name, bool default_value) {
  const OptionValue* value = Find(name);
  if (value == nullptr) return default_value;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  WrongType(name, "true or false");
  return default_value;
}

double OptimizerOptions::Entry(const std::string& name, std::size_t index, double default_value) {
  const OptionValue* value = Find(name);
  if (value == nullptr) return default_value;
  const auto* list = std::get_if<std::vector<double>>(value);
  if (list != nullptr && index < list->size()) return (*list)[index];
  WrongType(name, "a list such as [0.9, 0.999]");
  return default_value;
}

Implementation OptimizerOptions::ReadImplementation(bool has_fused, bool foreach_by_default) {
  const bool foreach_given = Find("foreach") != nullptr;
  const bool foreach_flag = Flag("foreach", foreach_by_default);
  const bool fused = has_fused && Flag("fused", false);
  if (fused && foreach_given && foreach_flag && status_.ok()) {
    status_ = Status::InvalidArgument("optimizer " + spec_.name +
                                      ": fused and foreach cannot both be true");
  }
  if (fused) return Implementation::kFused;
  return foreach_flag ? Implementation::kForeach : Implementation::kSingleTensor;
}

Status OptimizerOptions::status() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : spec_.options) {
    if (known_.contains(name)) continue;
    std::string list;
    for (const std::string& known : known_) list.append(list.empty() ? "" : ", ").append(known);
    return Status::InvalidArgument("optimizer " + spec_.name + " has no option " + name +
                                   "; it takes " + list);
  }
  return {};
}

Optimizer::Optimizer(OptimizerOptions& options, const OptimizerTraits& traits,
                     std::vector<NamedTensor> parameters, std::vector<std::string> slots)
    : lr_(options.Number("lr", traits.lr)),
      weight_decay_(traits.has_weight_decay ? options.Number("weight_decay", traits.weight_decay)
                                            : 0),
      maximize_(traits.has_maximize && options.Flag("maximize", false)),
      capturable_(traits.has_capturable && options.Flag("capturable", false)),
      implementation_(options.ReadImplementation(traits.has_fused, traits.foreach_by_default)),
      parameters_(std::move(parameters)),
      slots_(std::move(slots)),
      state_(slots_.size(), TensorList(parameters_.size())),
      started_(parameters_.size(), false) {}

void Optimizer::ZeroGrad() {
  for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void Optimizer::Step() {
  const at::NoGradGuard no_grad;
  Active active;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    if (!parameter.grad().defined()) continue;
    active.index.push_back(i);
    active.params.push_back(parameter);
    active.grads.push_back(parameter.grad());
  }
  if (active.index.empty()) return;
  for (std::size_t i = 0; i < active.index.size(); ++i) {
    const std::size_t k = active.index[i];
    if (!started_[k]) Start(k, active.params[i], active.grads[i]);
    started_[k] = true;
  }
  switch (implementation_) {
    case Implementation::kForeach:
      return Foreach(active);
    case Implementation::kSingleTensor:
      return SingleTensor(active);
    case Implementation::kFused:
      return Fused(active);
  }
}

void Optimizer::Fused(const Active& /*active*/) {
  TORCH_CHECK(false, "this optimizer has no fused implementation");
}

void Optimizer::SetScaler(at::Tensor grad_scale, at::Tensor found_inf) {
  grad_scale_ = std::move(grad_scale);
  found_inf_ = std::move(found_inf);
}

std::optional<at::Tensor> Optimizer::grad_scale() const {
  return grad_scale_.defined() ? std::optional(grad_scale_) : std::nullopt;
}

std::optional<at::Tensor> Optimizer::found_inf() const {
  return found_inf_.defined() ? std::optional(found_inf_) : std::nullopt;
}

std::vector<NamedTensor> Optimizer::State() const {
  std::vector<NamedTensor> all;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!state_[slot][i].defined()) continue;
      all.push_back({slots_[slot] + "." + parameters_[i].name, state_[slot][i]});
    }
  }
  return all;
}

TensorList Optimizer::Gather(std::size_t slot, const std::vector<std::size_t>& index) const {
  TensorList tensors;
  tensors.reserve(index.size());
  for (const std::size_t i : index) tensors.push_back(state_[slot][i]);
  return tensors;
}

std::vector<Optimizer::Active> Optimizer::Groups(const Active& active) {
  const std::vector<std::optional<at::Tensor>> params(active.params.begin(), active.params.end());
  const auto grouped =
      at::native::_group_tensors_by_first_tensors_device_and_dtype({params}, /*with_indices=*/true);
  std::vector<Active> groups;
  for (const auto& [key, tensors_and_indices] : grouped) {
    Active group;
    for (const auto i : tensors_and_indices.second) {
      const auto k = static_cast<std::size_t>(i);
      group.index.push_back(active.index[k]);
      group.params.push_back(active.params[k]);
      group.grads.push_back(active.grads[k]);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void Optimizer::AdvanceSteps(TensorList& steps) {
  if (steps.front().is_cpu()) {
    at::_foreach_add_(steps, at::scalar_tensor(1.0F), /*alpha=*/1.0);
  } else {
    at::_foreach_add_(steps, 1);
  }
}

at::Tensor Optimizer::NewStep(const at::Tensor& parameter) const {
  const bool on_device = capturable_ || implementation_ == Implementation::kFused;
  return at::zeros({}, on_device ? parameter.options().dtype(at::kFloat).requires_grad(false)
                                 : at::TensorOptions().dtype(at::kFloat));
}

void Optimizer::Negate(TensorList& grads) const {
  if (maximize_) grads = at::_foreach_neg(grads);
}

void Optimizer::Decay(TensorList& grads, const TensorList& params) const {
  if (weight_decay_ == 0) return;
  if (maximize_) {
    at::_foreach_add_(grads, params, weight_decay_);
  } else {
    grads = at::_foreach_add(grads, params, weight_decay_);
  }
}

void Optimizer::Negate(at::Tensor& variable, const at::Tensor& grad, bool one_statement) const {
  if (!one_statement) variable = grad;
  variable = maximize_ ? grad.neg() : grad;
}

void Optimizer::Decay(at::Tensor& variable, const at::Tensor& param) const {
  if (weight_decay_ != 0) variable = variable.add(param, weight_decay_);
}

at::Tensor Optimizer::Divide(double number, const at::Tensor& tensor) {
  const at::Tensor reciprocal = tensor.reciprocal();
  return reciprocal * number;
}

Result<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec,
                                                 std::vector<NamedTensor> parameters) {
  std::string names;
  for (const Known& known : kKnown) {
    names.append(names.empty() ? "" : ", ").append(known.name);
    if (known.name != spec.name) continue;
    OptimizerOptions options(spec);
    std::unique_ptr<Optimizer> optimizer = known.make(options, std::move(parameters));
    if (Status status = options.status(); !status.ok()) return status;
    return optimizer;
  }
  return Status::InvalidArgument("unknown optimizer " + spec.name + "; known are " + names);
}

}  // namespace memmodel::step
