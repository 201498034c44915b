#include "src/step/stored_inputs.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace memmodel::step {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 15> kDtypes = {{
    {"float32", at::kFloat},
    {"float64", at::kDouble},
    {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16},
    {"int64", at::kLong},
    {"int32", at::kInt},
    {"int16", at::kShort},
    {"int8", at::kChar},
    {"uint8", at::kByte},
    {"bool", at::kBool},
    {"float", at::kFloat},
    {"half", at::kHalf},
    {"long", at::kLong},
    {"int", at::kInt},
    {"complex64", at::kComplexFloat},
}};

}  // namespace

std::optional<at::ScalarType> ParseDtype(std::string_view name) {
  for (const auto& [known, type] : kDtypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

std::string DtypeName(at::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes) {
    if (type == dtype) return std::string(name);
  }
  return c10::toString(dtype);
}

std::string FormatInputs(const std::vector<InputSpec>& inputs) {
  nlohmann::json list = nlohmann::json::array();
  for (const InputSpec& input : inputs) {
    list.push_back(
        {{"name", input.name}, {"shape", input.shape}, {"dtype", DtypeName(input.dtype)}});
  }
  return list.dump();
}

Result<std::vector<InputSpec>> ParseStoredInputs(const std::string& text) {
  std::vector<InputSpec> inputs;
  if (text.empty()) return inputs;
  std::string message(kStoredInputsFile);
  message += " in it is not a list of {name, shape, dtype}; give --input";
  const Status bad = Status::BadInput(message);
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return bad;
  try {
    for (const nlohmann::json& object : list) {
      InputSpec input;
      input.name = object.value("name", "");
      input.shape = object.at("shape").get<std::vector<std::int64_t>>();
      const std::optional<at::ScalarType> dtype = ParseDtype(object.value("dtype", "float32"));
      if (!dtype) return bad;
      input.dtype = *dtype;
      inputs.push_back(std::move(input));
    }
  } catch (const nlohmann::json::exception&) {
    return bad;
  }
  return inputs;
}

}  // namespace memmodel::step
