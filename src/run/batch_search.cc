#include "src/run/batch_search.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/predict/largest_batch.h"
#include "src/run/run_kinds.h"

namespace memmodel {
namespace {

using Holds = std::function<bool(const ScriptRun&)>;
using Measure = std::optional<Bytes> ProbeAnswer::*;

// Runs with the answers that the user asked for; others were made to compare with.
bool IsProbe(const RunOptions& options, const Card& card) {
  return card.answers == Answers::kZero && card.counts == options.unknown_count.value_or(-1);
}

// A script whose data ends before the batch does trains on smaller ones.
Status CheckGrowth(const RunOptions& options, const Runs& runs, std::int64_t batch,
                   const ScriptRun& run) {
  if (RanOut(run)) return {};
  for (const auto& [key, other] : runs.all()) {
    if (key.first >= batch || !IsProbe(options, key.second) || RanOut(other)) continue;
    if (Most(other, &ProbeAnswer::peak_allocated) == Most(run, &ProbeAnswer::peak_allocated)) {
      return Status::Unknown("memory is the same at batch " + std::to_string(key.first) + " and " +
                             std::to_string(batch) +
                             ": {batch} does not reach the model, or the data set has no more "
                             "samples. Give the script enough data (synthetic will do) for the "
                             "largest batch");
    }
  }
  return {};
}

Result<std::int64_t> Search(const RunOptions& options, Runs* runs, std::int64_t known_true,
                            double budget, const Holds& holds, Measure measure) {
  SearchOptions search;
  search.known_true = known_true;
  search.budget = budget;
  search.side_by_side = 1;  // a script may keep its files, ports and processors to itself
  search.largest = options.largest_batch;
  for (const auto& [key, run] : runs->all()) {
    if (!IsProbe(options, key.second)) continue;
    if (!RanOut(run)) search.measures[key.first] = Most(run, measure);
    if (key.second.total == 0) continue;
    if (holds(run)) search.known_true = std::max(search.known_true, key.first);
  }
  for (const auto& [key, run] : runs->all()) {
    if (!IsProbe(options, key.second)) continue;
    if (key.second.total != 0 && key.first > search.known_true && !holds(run)) {
      search.known_false = std::min(search.known_false.value_or(key.first), key.first);
    }
  }
  Result<std::int64_t> found = LargestBatch(
      search, [&](const std::vector<std::int64_t>& batches) -> Result<std::vector<Trial>> {
        std::vector<Trial> trials;
        for (const std::int64_t batch : batches) {
          Result<const ScriptRun*> run = runs->Once(batch, runs->TrueSize());
          if (!run.ok()) return run.status();
          if (Status s = CheckGrowth(options, *runs, batch, **run); !s.ok()) return s;
          Trial trial{holds(**run), std::nullopt};
          if (!RanOut(**run)) trial.measure = Most(**run, measure);
          trials.push_back(trial);
        }
        return trials;
      });
  if (found.ok() && *found >= options.largest_batch) {
    return Status::Unknown("batch " + std::to_string(*found) +
                           " still fits, and larger ones were not tried");
  }
  return found;
}

}  // namespace

Result<LargestBatches> FindLargestBatches(const RunOptions& options, Runs* runs) {
  const double limit = static_cast<double>(options.allocator_limit.value_or(options.total_bytes));
  const Bytes context = runs->context().value;
  Result<std::int64_t> fits = Search(
      options, runs, 0, std::min(static_cast<double>(runs->TargetBytes() - context), limit),
      [runs](const ScriptRun& run) { return runs->Fits(run); }, &ProbeAnswer::peak_reserved);
  if (!fits.ok()) return fits.status();
  Result<std::int64_t> most = Search(
      options, runs, *fits, std::min(static_cast<double>(options.total_bytes - context), limit),
      [](const ScriptRun& run) { return !RanOut(run); }, &ProbeAnswer::peak_allocated);
  if (!most.ok()) return most.status();
  return LargestBatches{*fits, *most};
}

}  // namespace memmodel
