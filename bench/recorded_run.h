// Recorded allocator runs: a request stream and, beside it, a JSON file with the
// settings (conf_value), the limit (cap), the device's memory (total), the
// statistics of torch.cuda.memory_stats and the final segments.
#ifndef MEMMODEL_BENCH_RECORDED_RUN_H_
#define MEMMODEL_BENCH_RECORDED_RUN_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memmodel/allocator_replay.h"

namespace memmodel::bench {

// Paths without their ending, sorted.
inline std::vector<std::string> RecordedRuns(const std::string& folder) {
  std::vector<std::string> stems;
  constexpr std::string_view kEnding = ".trace.gz";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.ends_with(kEnding)) stems.push_back(path.substr(0, path.size() - kEnding.size()));
  }
  std::sort(stems.begin(), stems.end());
  return stems;
}

// The options under which the run was recorded.
inline Result<ReplayOptions> OptionsOf(const nlohmann::json& run) {
  ReplayOptions options;
  options.segment_addresses = SegmentAddresses::kRecorded;
  const std::string conf = run.value("conf_value", "");
  Result<AllocatorSettings> settings = ParseAllocatorSettings(conf);
  if (!settings.ok()) return settings.status();
  options.allocator.settings = *settings;
  options.allocator.total_bytes = run.at("total").get<Bytes>();
  options.capacity = run.value("capacity", AllocatorSettings::kNoLimit);
  if (!run.at("cap").is_null()) {
    // torch.cuda.set_per_process_memory_fraction(cap / total)
    const auto total = static_cast<double>(options.allocator.total_bytes);
    const double fraction = static_cast<double>(run.at("cap").get<Bytes>()) / total;
    options.allocator.limit_bytes = static_cast<Bytes>(fraction * total);
  }
  return options;
}

inline void CompareSegments(const ReplayResult& result, const nlohmann::json& segments,
                            std::vector<std::string>* differences) {
  if (result.segments.size() != segments.size()) {
    differences->push_back(std::to_string(result.segments.size()) + " segments, recorded " +
                           std::to_string(segments.size()));
    return;
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const SegmentInfo& have = result.segments[i];
    const nlohmann::json& want = segments[i];
    bool same = have.address == std::stoull(want.at("addr").get<std::string>(), nullptr, 16) &&
                have.total_size == want.at("size").get<Bytes>() &&
                have.is_small == want.at("small").get<bool>() &&
                have.is_expandable == want.at("expandable").get<bool>() &&
                have.blocks.size() == want.at("blocks").size();
    for (std::size_t b = 0; same && b < have.blocks.size(); ++b) {
      const BlockInfo& block = have.blocks[b];
      const nlohmann::json& recorded = want.at("blocks")[b];
      same = block.size == recorded[0].get<Bytes>() &&
             BlockStateName(block.state) == recorded[1].get<std::string>() &&
             block.requested_size == recorded[2].get<Bytes>();
    }
    if (!same) {
      differences->push_back("segment " + want.at("addr").get<std::string>() + " differs");
      return;
    }
  }
}

// What differs between the simulator and the recorded run, a line for each.
inline std::vector<std::string> Compare(const std::string& stem, long long* requests) {
  std::ifstream file(stem + ".json");
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, false);
  if (run.is_discarded()) return {"no readable .json beside it"};
  const Result<Trace> trace = ReadTrace(stem + ".trace.gz");
  if (!trace.ok()) return {trace.status().message()};
  const Result<ReplayOptions> options = OptionsOf(run);
  if (!options.ok()) return {options.status().message()};
  const Result<ReplayResult> result = Replay(*trace, *options);
  if (!result.ok()) return {result.status().message()};
  *requests += result->requests;

  std::vector<std::string> differences;
  if (!result->first_difference.empty()) differences.push_back(result->first_difference);
  if (result->first_failure) {
    differences.push_back("request " + std::to_string(*result->first_failure) + " failed");
  }
  std::map<std::string, std::int64_t> flat;
  for (const auto& [name, value] : result->statistics.Flatten()) flat[name] = value;
  for (const auto& [name, value] : run.at("stats").items()) {
    const auto it = flat.find(name);
    if (it == flat.end() || it->second != value.get<std::int64_t>()) {
      differences.push_back(name + " is " +
                            (it == flat.end() ? "missing" : std::to_string(it->second)) +
                            ", recorded " + value.dump());
    }
  }
  if (run.contains("segments")) CompareSegments(*result, run.at("segments"), &differences);
  return differences;
}

}  // namespace memmodel::bench

#endif  // MEMMODEL_BENCH_RECORDED_RUN_H_
