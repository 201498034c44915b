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

std::int64_t StepsDone(const ScriptRun& run) {
  std::int64_t steps = 0;
  for (const ProcessReport& report : run.reports) steps = std::max(steps, report.steps_done);
  return steps;
}

const ScriptRun* Find(const Runs& runs, std::int64_t batch, const Card& card) {
  const auto found = runs.all().find({batch, card});
  return found == runs.all().end() ? nullptr : &found->second;
}

// The first dimension that the model is given at `batch`, if those of the first two batches
// show that it is this batch or a share of it (one rank's). Not so where a model takes the
// sequence first, or all atoms or tokens of a batch in one row.
std::optional<std::int64_t> Expected(const Runs& runs, std::int64_t batch) {
  const auto [first, second] = kFirstBatches;
  const ScriptRun* a = Find(runs, first, runs.WithoutEnd());
  const ScriptRun* b = Find(runs, second, runs.WithoutEnd());
  if (a == nullptr || b == nullptr || !Heaviest(*a).batch || !Heaviest(*b).batch) return {};
  const std::int64_t at_first = *Heaviest(*a).batch, at_second = *Heaviest(*b).batch;
  const bool proportional = at_first * second == at_second * first;
  const bool ended_between = at_first == first && at_first < at_second && at_second < second;
  if (!proportional && !ended_between) return {};
  return at_first * batch / first;
}

Status DataEnded(std::int64_t batch, const std::string& what) {
  return Status::Unknown("at batch " + std::to_string(batch) + " " + what +
                         ". Give the script enough data (synthetic will do) for --steps steps of "
                         "the largest batch");
}

// Whether the model was given less than the batch.
bool FellShort(const Runs& runs, std::int64_t batch, const ScriptRun& run) {
  const std::optional<std::int64_t> expected = Expected(runs, batch), given = Heaviest(run).batch;
  return expected && given && *given < *expected;
}

// Some scripts catch out of memory and go on with smaller batches.
bool MadeSmaller(const Runs& runs, std::int64_t batch, const ScriptRun& run) {
  return Heaviest(run).answer.ooms > 0 && FellShort(runs, batch, run);
}

// Whether this run was one of that batch: a script whose data ends before the batch does trains
// on smaller ones, or makes fewer steps.
Status CheckData(const RunOptions& options, const Runs& runs, std::int64_t batch,
                 const ScriptRun& run) {
  if (RanOut(run) || MadeSmaller(runs, batch, run)) return {};
  if (FellShort(runs, batch, run)) {
    return DataEnded(batch, "the model was given " + std::to_string(*Heaviest(run).batch) +
                                " samples, not " + std::to_string(*Expected(runs, batch)) +
                                ": the data set has no more, or the script limits it");
  }
  for (const auto& [key, other] : runs.all()) {
    if (key.first >= batch || !IsProbe(options, key.second) || RanOut(other)) continue;
    const std::string smaller = std::to_string(key.first);
    if (options.steps > 0 && StepsDone(run) < StepsDone(other)) {
      return DataEnded(batch, "the script ended by itself after " + std::to_string(StepsDone(run)) +
                                  " of " + std::to_string(options.steps) + " steps, at batch " +
                                  smaller + " after " + std::to_string(StepsDone(other)) +
                                  ": the data set is too small");
    }
    if (!Expected(runs,
                  batch) &&  // else it did reach the model, and the peak is where the batch is not
        Most(other, &ProbeAnswer::peak_allocated) == Most(run, &ProbeAnswer::peak_allocated)) {
      return DataEnded(batch, "memory is the same as at batch " + smaller +
                                  ": {batch} does not reach the model, or the data set has no more "
                                  "samples");
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
  const auto holds_at = [&](std::int64_t batch, const ScriptRun& run) {
    return holds(run) && !MadeSmaller(*runs, batch, run);
  };
  for (const auto& [key, run] : runs->all()) {
    if (!IsProbe(options, key.second)) continue;
    if (!RanOut(run)) search.measures[key.first] = Most(run, measure);
    if (key.second.total == 0) continue;
    if (holds_at(key.first, run)) search.known_true = std::max(search.known_true, key.first);
  }
  for (const auto& [key, run] : runs->all()) {
    if (!IsProbe(options, key.second)) continue;
    if (key.second.total != 0 && key.first > search.known_true && !holds_at(key.first, run)) {
      search.known_false = std::min(search.known_false.value_or(key.first), key.first);
    }
  }
  Result<std::int64_t> found = LargestBatch(
      search, [&](const std::vector<std::int64_t>& batches) -> Result<std::vector<Trial>> {
        std::vector<Trial> trials;
        for (const std::int64_t batch : batches) {
          Result<const ScriptRun*> run = runs->Once(batch, runs->TrueSize());
          if (!run.ok()) return run.status();
          if (Status s = CheckData(options, *runs, batch, **run); !s.ok()) {
            runs->Disown(batch);
            return s;
          }
          Trial trial{holds_at(batch, **run), std::nullopt};
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
  for (const std::int64_t batch : kFirstBatches) {
    const ScriptRun* run = Find(*runs, batch, runs->WithoutEnd());
    if (run == nullptr) continue;
    if (Status s = CheckData(options, *runs, batch, *run); !s.ok()) return s;
  }
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
