// Typed reading of JSON for the pt2_ sources. A malformed file is an exception
// here (nlohmann_json's own, or Malformed); ParseProgram and ParsePayloads turn
// it into a Status.
#ifndef MEMMODEL_SRC_STEP_PT2_JSON_H_
#define MEMMODEL_SRC_STEP_PT2_JSON_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/step/pt2_schema.h"

namespace memmodel::step::pt2 {

using Json = nlohmann::json;
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline const Json* Find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline const Json& At(const Json& object, const char* key) {
  if (const Json* found = object.is_object() ? Find(object, key) : nullptr) return *found;
  throw Malformed("expected the field \"" + std::string(key) + "\"");
}

inline std::string Text(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_string()) throw Malformed("field \"" + std::string(key) + "\" is not a text");
  return value.get<std::string>();
}

inline std::int64_t Whole(const Json& value) {
  if (!value.is_number_integer()) throw Malformed("expected a whole number, found " + value.dump());
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    throw Malformed("number too large: " + value.dump());
  }
  return value.get<std::int64_t>();
}

inline double Real(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  throw Malformed("expected a number");
}

inline bool Flag(const Json& value) {
  if (!value.is_boolean()) throw Malformed("expected true or false");
  return value.get<bool>();
}

inline const Json& Elements(const Json& value, const char* what) {
  if (!value.is_array()) throw Malformed("expected a list of " + std::string(what));
  return value;
}

// A union is an object of one field that is not null: the name of the case.
inline std::pair<std::string, const Json*> Case(const Json& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (!it.value().is_null()) return {it.key(), &it.value()};
    }
  }
  throw Malformed("expected one of several cases, found none");
}

inline constexpr int kMaxNesting = 32;  // graphs in graphs, lists in lists

// pt2_arguments.cc
Dimension DimensionFrom(const Json& value);
TensorMeta TensorMetaFrom(const Json& value);
Argument ArgumentFrom(const Json& value, int depth);
// pt2_schema.cc
Graph GraphFrom(const Json& value, int depth);

}  // namespace memmodel::step::pt2

#endif  // MEMMODEL_SRC_STEP_PT2_JSON_H_
