// From runs of the script to an answer.
//
// The script is run on the card of true size. If it needs more, it is run once more
// on a card without end, which shows how much. If the host read values that only a
// kernel could know and that are not harmless by themselves, it is run again with
// other values: only if no request differs is there an answer.
//
// With find_batch two small batches on a card without end show how memory grows; the
// largest batch is then looked for among runs on the card of true size.
#include "memmodel/run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/child/temporary_folder.h"
#include "src/run/batch_search.h"
#include "src/run/describe.h"
#include "src/run/run_kinds.h"
#include "src/run/runs.h"
#include "src/run/script.h"
#include "src/run/unknown_values.h"

namespace memmodel {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Answerer {
 public:
  Answerer(const RunOptions& options, ScriptTools tools, const std::string& folder)
      : options_(options), runs_(options, std::move(tools), folder) {}

  Result<RunAnswer> Answer() {
    const auto start = Clock::now();
    answer_.prediction.assumptions = options_.assumptions;
    Status status = options_.find_batch ? FindBatch() : OneRun();
    if (!status.ok()) return Status(status.code(), status.message() + TriedBefore());
    answer_.probes = runs_.probes();
    answer_.prediction.timings.total_ms = MillisecondsSince(start);
    return std::move(answer_);
  }

 private:
  Status OneRun() {
    Result<const ScriptRun*> run = runs_.Once(0, runs_.TrueSize());
    if (!run.ok()) return run.status();
    const ScriptRun* shown = *run;
    const bool out_of_memory = RanOut(**run);
    if (out_of_memory && options_.device_kind == DeviceKind::kVirtual) {
      Say("out of memory; measuring how much it would take");
      Result<const ScriptRun*> need = runs_.Once(0, runs_.WithoutEnd());
      if (need.ok()) {
        shown = *need;
      } else {
        answer_.notes.push_back("how much it would need is not known: " + need.status().message());
      }
    }
    if (Status s = Describe(options_, runs_, *shown, &answer_); !s.ok()) return s;
    if (Status s = Conclude(**run, out_of_memory, shown != *run); !s.ok()) return s;
    return BoundCounts(options_, &runs_, *shown, 0, &answer_);
  }

  // A search that ends without an answer has shown something all the same.
  [[nodiscard]] std::string TriedBefore() const {
    std::string text;
    for (const BatchProbe& probe : runs_.probes()) {
      text += (text.empty() ? " (tried before: " : ", ") + std::to_string(probe.batch) + " " +
              probe.outcome;
    }
    return text.empty() ? "" : text + ")";
  }

  // The verdict on a run of the card of true size.
  Status Conclude(const ScriptRun& run, bool out_of_memory, bool need_known) {
    Prediction& prediction = answer_.prediction;
    if (out_of_memory) {
      prediction.verdict = Verdict::kDoesNotFit;
      prediction.reason = OutOfMemoryReason(run, need_known);
      return {};
    }
    if (Status s = WeighUnknownReads(options_, &runs_, run, 0, &answer_); !s.ok()) return s;
    if (!prediction.unknown.empty()) return {};
    std::int64_t retries = 0;
    for (const RankMemory& rank : answer_.ranks) retries = std::max(retries, rank.retries);
    const bool fits =
        retries == 0 && prediction.peak->device + Runs::MayComeOnTop(run) <= runs_.TargetBytes();
    prediction.verdict = fits ? Verdict::kFits : Verdict::kDoesNotFit;
    prediction.reason = Reason(retries);
    return {};
  }

  [[nodiscard]] std::string Reason(std::int64_t retries) const {
    const Prediction& prediction = answer_.prediction;
    const std::string need = (answer_.ranks.size() > 1 ? "each GPU needs up to " : "it takes ") +
                             FormatBytes(prediction.peak->device) + " of " +
                             FormatBytes(options_.total_bytes);
    const int percent = static_cast<int>(options_.target * 100 + 0.5);
    if (prediction.verdict == Verdict::kFits) {
      return need + "; the target allows " + std::to_string(percent) + " %";
    }
    if (retries > 0) {
      return "it runs, but only because the allocator gives cached memory back and tries again (" +
             std::to_string(retries) + (retries == 1 ? " time)" : " times)");
    }
    return need + "; it runs, but the target allows only " + std::to_string(percent) + " %";
  }

  [[nodiscard]] std::string OutOfMemoryReason(const ScriptRun& run, bool need_known) const {
    const ProcessReport* failed = nullptr;
    for (const ProcessReport& report : run.reports) {
      if (report.answer.outcome == Outcome::kOutOfMemory && failed == nullptr) failed = &report;
    }
    std::string reason = "it runs out of memory";
    if (failed != nullptr) {
      reason += " in step " + std::to_string(failed->steps_done + 1);
      if (!failed->answer.error.module.empty()) reason += " (" + failed->answer.error.module + ")";
    }
    const Prediction& prediction = answer_.prediction;
    if (need_known && prediction.peak) {
      reason += options_.allocator_limit
                    ? ": it needs " + FormatBytes(prediction.peak->reserved) +
                          " reserved, the allocator may take " +
                          FormatBytes(*options_.allocator_limit)
                    : ": it needs " + FormatBytes(prediction.peak->device) + ", the card has " +
                          FormatBytes(options_.total_bytes);
    }
    return reason;
  }

  Status FindBatch() {
    for (const std::int64_t batch : kFirstBatches) {
      Result<const ScriptRun*> run = runs_.Once(batch, runs_.WithoutEnd());
      if (!run.ok()) return run.status();
      if (batch == kFirstBatches[0]) {
        if (Status s = WeighUnknownReads(options_, &runs_, **run, batch, &answer_); !s.ok()) {
          return s;
        }
        if (!answer_.prediction.unknown.empty()) {
          return Describe(options_, runs_, **run, &answer_);
        }
      }
    }
    Result<LargestBatches> largest = FindLargestBatches(options_, &runs_);
    if (!largest.ok()) return largest.status();
    const std::int64_t fits = largest->fits;
    Prediction& prediction = answer_.prediction;
    prediction.largest_batch = fits;
    prediction.largest_batch_before_oom = largest->runs;
    const std::int64_t shown = std::max<std::int64_t>(1, fits);
    Result<const ScriptRun*> run =
        runs_.Once(shown, fits > 0 ? runs_.TrueSize() : runs_.WithoutEnd());
    if (!run.ok()) return run.status();
    if (Status s = Describe(options_, runs_, **run, &answer_); !s.ok()) return s;
    prediction.batch = shown;
    prediction.verdict = fits > 0 ? Verdict::kFits : Verdict::kDoesNotFit;
    const std::string need =
        FormatBytes(prediction.peak->device) + " of " + FormatBytes(options_.total_bytes);
    prediction.reason = fits > 0 ? "batch " + std::to_string(fits) + " takes " + need + "; batch " +
                                       std::to_string(fits + 1) + " does not fit the target"
                                 : "even batch 1 takes " + need;
    return BoundCounts(options_, &runs_, **run, shown, &answer_);
  }

  void Say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  const RunOptions& options_;
  Runs runs_;
  RunAnswer answer_;
};

}  // namespace

Result<RunAnswer> Run(const RunOptions& options) {
  std::string reason;
  if (!IsValid(options, &reason)) return Status::InvalidArgument(reason);
  Result<ScriptTools> tools = FindScriptTools();
  if (!tools.ok()) return tools.status();
  if (!options.cache.empty()) tools->cache = options.cache;
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  return Answerer(options, *std::move(tools), folder->path()).Answer();
}

}  // namespace memmodel
