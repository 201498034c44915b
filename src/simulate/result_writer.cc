#include <nlohmann/json.hpp>

#include "memmodel/allocator_replay.h"

namespace memmodel {

std::string ReplayToJson(const ReplayResult& result) {
  using nlohmann::ordered_json;
  const AllocatorStatistics& s = result.statistics;
  ordered_json json;
  json["schema_version"] = 1;
  json["torch_version"] = AllocatorSettings::kTorchVersion;
  json["requests"] = result.requests;
  json["peak"] = {{"allocated_bytes", s.allocated_bytes.all.peak},
                  {"reserved_bytes", s.reserved_bytes.all.peak},
                  {"active_bytes", s.active_bytes.all.peak},
                  {"requested_bytes", s.requested_bytes.all.peak}};
  json["allocator"] = {{"retries", s.num_alloc_retries},
                       {"ooms", s.num_ooms},
                       {"segments", result.segments.size()}};
  if (result.first_failure) json["first_failed_event"] = *result.first_failure;
  if (!result.first_difference.empty()) {
    json["first_difference"] = result.first_difference;
    json["differing_addresses"] = result.differing_addresses;
  }
  if (result.unmatched_frees > 0) json["unmatched_frees"] = result.unmatched_frees;
  ordered_json statistics = ordered_json::object();
  for (const auto& [name, value] : s.Flatten()) statistics[name] = value;
  json["statistics"] = std::move(statistics);
  return json.dump(2);
}

}  // namespace memmodel
