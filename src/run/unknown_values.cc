#include "src/run/unknown_values.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/run/judge.h"
#include "src/run/run_kinds.h"

namespace memmodel {
namespace {

bool SamePeaks(const ScriptRun& run, const ScriptRun& other) {
  return std::equal(run.reports.begin(), run.reports.end(), other.reports.begin(),
                    other.reports.end(), [](const ProcessReport& a, const ProcessReport& b) {
                      return std::equal(a.devices.begin(), a.devices.end(), b.devices.begin(),
                                        b.devices.end(),
                                        [](const DeviceTrace& x, const DeviceTrace& y) {
                                          return x.peak_allocated == y.peak_allocated &&
                                                 x.peak_reserved == y.peak_reserved;
                                        });
                    });
}

// Whether it is booleans alone that requests depend on, and both of their values lead to
// the same peaks: `ones` is the run with one for every value. A number may be any size, so
// requests may not depend on one at all.
bool PeaksStay(Runs* runs, const ScriptRun& run, const ScriptRun& ones, std::int64_t batch) {
  if (RanOut(run) || RanOut(ones) || !SamePeaks(run, ones)) return false;
  Card card = runs->TrueSize();
  card.answers = Answers::kTrue;
  Result<const ScriptRun*> booleans = runs->Once(batch, card);
  return booleans.ok() && !RanOut(**booleans) && SamePeaks(run, **booleans) &&
         FirstDifference(ones, **booleans).empty();
}

// One line may read several values (isnan and isinf of a loss).
void AddHarmless(const ScriptRead& read, const std::string& reason, RunAnswer* answer) {
  const auto same = std::find_if(
      answer->harmless.begin(), answer->harmless.end(),
      [&](const HarmlessRead& h) { return h.where == read.where && h.reason == reason; });
  if (same != answer->harmless.end()) {
    same->count += read.count;
  } else {
    answer->harmless.push_back({read.where, reason, read.count});
  }
}

// Of these, what a run with other values failed over: a shape that does not go with the
// others, if any of them is one.
const ScriptRead& LikelyCause(const std::vector<ScriptRead>& reads) {
  const auto count = std::find_if(reads.begin(), reads.end(),
                                  [](const ScriptRead& read) { return read.is_count; });
  return count == reads.end() ? reads.back() : *count;
}

}  // namespace

Status WeighUnknownReads(const RunOptions& options, Runs* runs, const ScriptRun& run,
                         std::int64_t batch, RunAnswer* answer) {
  std::vector<ScriptRead> open;
  for (const ProcessReport& report : run.reports) {
    for (const ScriptRead& read : report.harmless) {
      AddHarmless(read, read.reason, answer);
    }
    open.insert(open.end(), report.unknown.begin(), report.unknown.end());
  }
  if (open.empty()) return {};
  if (options.progress) {
    options.progress(
        "running it again with other values where it reads what only a kernel "
        "computes");
  }
  Card card = runs->TrueSize();
  card.answers = Answers::kOne;
  Result<const ScriptRun*> other = runs->Once(batch, card);
  const std::string difference =
      other.ok() ? FirstDifference(run, **other) : LikelyCause(open).where;
  if (difference.empty()) {
    for (const ScriptRead& read : open) {
      AddHarmless(read, "no request depends on it (tried with 0 and 1)", answer);
    }
    return {};
  }
  if (other.ok() && PeaksStay(runs, run, **other, batch)) {
    for (const ScriptRead& read : open) {
      AddHarmless(read,
                  read.boolean ? "requests depend on it, the peaks do not (tried both ways)"
                               : "no request depends on it (tried with 0 and 1)",
                  answer);
    }
    return {};
  }
  Prediction& prediction = answer->prediction;
  prediction.unknown.push_back({difference, ""});
  prediction.verdict = Verdict::kUnknown;
  prediction.reason = "the memory depends on a value that only a real run computes: " + difference;
  const bool counts =
      std::any_of(open.begin(), open.end(), [](const ScriptRead& read) { return read.is_count; });
  if (counts && !options.unknown_count) {
    prediction.reason += "; give --unknown-count max, or a fraction of it, for a bound";
  }
  return {};
}

Status BoundCounts(const RunOptions& options, Runs* runs, const ScriptRun& run, std::int64_t batch,
                   RunAnswer* answer) {
  Prediction& prediction = answer->prediction;
  bool any = false;
  for (const ProcessReport& report : run.reports) {
    for (const ScriptRead& read : report.counts) {
      prediction.unknown.push_back({read.where, read.reason});
      any = true;
    }
  }
  if (!any || !prediction.interval || !prediction.peak) return {};
  Interval& interval = *prediction.interval;
  const Bytes below = prediction.peak->reserved - interval.low;
  const Bytes above = interval.high - prediction.peak->reserved;
  bool ran_out = false;
  for (const double share : {0.0, 1.0}) {
    Card card = runs->WithoutEnd();
    card.counts = share;
    Result<const ScriptRun*> end = runs->Once(batch, card);
    if (!end.ok() || RanOut(**end)) {
      ran_out = true;  // no figure of that end
      continue;
    }
    const Bytes reserved = runs->PeakOf(Heaviest(**end)).reserved;
    interval.low = std::min(interval.low, reserved - below);
    interval.high = std::max(interval.high, reserved + above);
  }
  interval.basis = "unknown counts from none to all of the largest possible; " + interval.basis;
  answer->notes.emplace_back(
      *options.unknown_count == 1
          ? "these figures are an upper bound: counts that only a real run knows were answered "
            "with the largest possible (--unknown-count)"
          : "these figures are as good as the share that --unknown-count gives: counts that only a "
            "real run knows were answered with it");
  if (ran_out) {
    answer->notes.emplace_back(
        "the script fails with none, or with all, of the largest counts: "
        "that end of the interval is missing");
  }
  return {};
}

}  // namespace memmodel
