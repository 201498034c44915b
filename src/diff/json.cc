#include <nlohmann/json.hpp>

#include "memmodel/diff.h"

namespace memmodel {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const DiffPart& part) {
  return {{"name", part.name},
          {"requests_a", part.requests_a},
          {"requests_b", part.requests_b},
          {"matched", part.matched},
          {"differences", part.differences},
          {"requested_peak_a_bytes", part.peak_a},
          {"requested_peak_b_bytes", part.peak_b}};
}

Json ToJson(const DiffGroup& group) {
  return {{"family", group.family},   {"library", group.library}, {"size", group.size},
          {"only_a", group.only_a},   {"only_b", group.only_b},   {"order", group.order},
          {"bytes_a", group.bytes_a}, {"bytes_b", group.bytes_b}};
}

Json ToJson(const Difference& d, const TraceDiff& diff) {
  Json json = {{"kind", DifferenceKindName(d.kind)},
               {"part", diff.parts[static_cast<std::size_t>(d.part)].name},
               {"phase", PhaseName(d.phase)}};
  if (d.event_a >= 0) json["event_a"] = d.event_a;
  if (d.event_b >= 0) json["event_b"] = d.event_b;
  if (d.kind == DifferenceKind::kMarker) {
    json["marker"] = d.marker;
  } else {
    if (d.event_a >= 0) json["bytes_a"] = d.bytes_a;
    if (d.event_b >= 0) json["bytes_b"] = d.bytes_b;
  }
  if (!d.context.operator_name.empty()) {
    json["operator"] = d.context.operator_name;
    json["module"] = d.context.module_path;
    json["context_inferred"] = d.context.inferred;
  }
  return json;
}

}  // namespace

std::string DiffToJson(const TraceDiff& diff, std::string_view name_a, std::string_view name_b,
                       std::size_t shown) {
  Json json = {{"schema_version", 1},
               {"a", name_a},
               {"b", name_b},
               {"identical", diff.identical},
               {"difference_count", diff.differences.size()},
               {"parts", Json::array()},
               {"groups", Json::array()},
               {"differences", Json::array()}};
  for (const DiffPart& part : diff.parts) json["parts"].push_back(ToJson(part));
  for (const DiffGroup& group : diff.groups) json["groups"].push_back(ToJson(group));
  for (std::size_t i = 0; i < std::min(shown, diff.differences.size()); ++i) {
    json["differences"].push_back(ToJson(diff.differences[i], diff));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace memmodel
