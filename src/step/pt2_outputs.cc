#include "src/step/pt2_outputs.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace memmodel::step {
namespace {

using Json = nlohmann::json;
constexpr int kMaxDepth = 32;

// The names of a structure's parts; nullopt if they have none. A dictionary's
// context is the list of its keys as JSON, once or twice encoded.
std::optional<std::vector<std::string>> PartNames(const Json& context, std::size_t parts) {
  Json names = context;
  for (int i = 0; i < 2 && names.is_string(); ++i) {
    names = Json::parse(names.get<std::string>(), nullptr, /*allow_exceptions=*/false);
  }
  if (!names.is_array() || names.size() != parts || parts == 0) return std::nullopt;
  std::vector<std::string> result;
  for (const Json& name : names) {
    if (!name.is_string()) return std::nullopt;
    result.push_back(name.get<std::string>());
  }
  return result;
}

class Builder {
 public:
  explicit Builder(std::vector<c10::IValue>& values) : values_(values) {}

  std::optional<c10::IValue> Build(const Json& node, int depth) {
    if (depth > kMaxDepth || !node.is_object() || !node.contains("type")) return std::nullopt;
    const auto children = node.find("children_spec");
    if (children == node.end() || !children->is_array()) return std::nullopt;
    if (node["type"].is_null()) {
      if (next_ >= values_.size()) return std::nullopt;
      return std::move(values_[next_++]);
    }
    std::vector<c10::IValue> parts;
    for (const Json& child : *children) {
      auto part = Build(child, depth + 1);
      if (!part) return std::nullopt;
      parts.push_back(*std::move(part));
    }
    const auto context = node.find("context");
    const auto names = PartNames(context == node.end() ? Json() : *context, parts.size());
    if (!names) return c10::IValue(c10::ivalue::Tuple::create(std::move(parts)));
    c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
    for (std::size_t i = 0; i < parts.size(); ++i) dict.insert((*names)[i], std::move(parts[i]));
    return c10::IValue(std::move(dict));
  }

 private:
  std::vector<c10::IValue>& values_;
  std::size_t next_ = 0;
};

std::size_t Leaves(const Json& node, int depth) {
  if (depth > kMaxDepth || !node.is_object() || !node.contains("type")) return 0;
  if (node["type"].is_null()) return 1;
  std::size_t leaves = 0;
  const auto children = node.find("children_spec");
  if (children != node.end() && children->is_array()) {
    for (const Json& child : *children) leaves += Leaves(child, depth + 1);
  }
  return leaves;
}

}  // namespace

c10::IValue BuildOutputs(const std::string& tree, std::vector<c10::IValue> values) {
  const Json parsed = Json::parse(tree, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_array() && parsed.size() == 2 && Leaves(parsed[1], 0) == values.size()) {
    Builder builder(values);
    if (auto built = builder.Build(parsed[1], 0)) return *std::move(built);
  }
  if (values.size() == 1) return std::move(values[0]);
  return c10::ivalue::Tuple::create(std::move(values));
}

}  // namespace memmodel::step
