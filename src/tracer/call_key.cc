#include "src/tracer/call_key.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace memmodel::tracer {
namespace {

// Operators on aten/src/ATen/native/cuda/Reduce.cuh: where one output is summed up by
// several blocks of threads, gpu_reduce_kernel asks for a buffer of their parts and for
// semaphores, of sizes that follow from the shape by steps.
constexpr std::array<std::string_view, 8> kReductions = {
    "aten::sum",  "aten::mean", "aten::prod", "aten::amax",
    "aten::amin", "aten::var",  "aten::std",  "aten::linalg_vector_norm"};

template <typename Numbers>
std::string List(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) {
    if (!text.empty()) text.push_back(',');
    text += std::to_string(number);
  }
  return text;
}

bool Append(const at::Tensor& tensor, std::string* key) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.layout() != at::kStrided) return false;
  key->append(" ").append(c10::toString(tensor.scalar_type())).append("(");
  key->append(List(tensor.sizes())).append(";").append(List(tensor.strides()));
  key->append(";").append(std::to_string(tensor.storage_offset())).append(")");
  return true;
}

bool Append(const c10::IValue& value, std::string* key) {
  if (value.isTensor()) return Append(value.toTensor(), key);
  if (value.isNone()) {
    key->append(" none");
  } else if (value.isBool()) {
    key->append(value.toBool() ? " true" : " false");
  } else if (value.isInt()) {
    key->append(" ").append(std::to_string(value.toInt()));
  } else if (value.isIntList()) {
    key->append(" [").append(List(value.toIntVector())).append("]");
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::string CallKey(const at::RecordFunction& function) {
  if (std::find(kReductions.begin(), kReductions.end(), function.name()) == kReductions.end()) {
    return {};
  }
  const std::optional<c10::OperatorName> name = function.operator_name();
  if (!name) return {};
  std::string key = name->name;
  if (!name->overload_name.empty()) key.append(".").append(name->overload_name);
  for (const c10::IValue& value : function.inputs()) {
    if (!Append(value, &key)) return {};
  }
  return key;
}

}  // namespace memmodel::tracer
