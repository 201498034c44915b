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
#include <map>
#include <utility>

#include "memmodel/trace.h"
#include "src/child/temporary_folder.h"
#include "src/predict/context.h"
#include "src/predict/largest_batch.h"
#include "src/run/judge.h"
#include "src/run/script.h"

namespace memmodel {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kBatchPlace = "{batch}";
constexpr std::int64_t kFirstBatches[] = {8, 32};

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<std::string> WithBatch(std::vector<std::string> command, std::int64_t batch) {
  for (std::string& word : command) {
    for (std::size_t at = 0; (at = word.find(kBatchPlace, at)) != std::string::npos;) {
      const std::string number = std::to_string(batch);
      word.replace(at, kBatchPlace.size(), number);
      at += number.size();
    }
  }
  return command;
}

struct Card {
  Bytes total = 0;  // 0: without end
  bool other_answers = false;
  auto operator<=>(const Card&) const = default;
};

class Runner {
 public:
  Runner(const RunOptions& options, ScriptTools tools, const std::string& folder)
      : options_(options),
        tools_(std::move(tools)),
        folder_(folder),
        context_(EstimateContext(options.device, {})) {}

  Result<RunAnswer> Answer() {
    const auto start = Clock::now();
    answer_.prediction.assumptions = options_.assumptions;
    Status status = options_.find_batch ? FindBatch() : OneRun();
    if (!status.ok()) return status;
    answer_.prediction.timings.total_ms = MillisecondsSince(start);
    return std::move(answer_);
  }

 private:
  // ---- one run ----

  Status OneRun() {
    Result<const ScriptRun*> run = RunOnce(0, {options_.total_bytes, false});
    if (!run.ok()) return run.status();
    const ScriptRun* shown = *run;
    const bool out_of_memory = RanOut(**run);
    if (out_of_memory) {
      Say("out of memory; measuring how much it would take");
      Result<const ScriptRun*> need = RunOnce(0, {0, false});
      if (need.ok()) {
        shown = *need;
      } else {
        answer_.notes.push_back("how much it would need is not known: " + need.status().message());
      }
    }
    if (Status s = Describe(*shown); !s.ok()) return s;
    return Conclude(**run, out_of_memory, shown != *run);
  }

  // The verdict on a run of the card of true size.
  Status Conclude(const ScriptRun& run, bool out_of_memory, bool need_known) {
    Prediction& prediction = answer_.prediction;
    if (out_of_memory) {
      prediction.verdict = Verdict::kDoesNotFit;
      prediction.reason = OutOfMemoryReason(run, need_known);
      return {};
    }
    if (Status s = WeighUnknownReads(run, 0); !s.ok()) return s;
    if (!prediction.unknown.empty()) return {};
    std::int64_t retries = 0;
    for (const RankMemory& rank : answer_.ranks) retries = std::max(retries, rank.retries);
    const bool fits = retries == 0 && prediction.peak->device <= TargetBytes();
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

  // ---- the largest batch ----

  Status FindBatch() {
    for (const std::int64_t batch : kFirstBatches) {
      Result<const ScriptRun*> run = RunOnce(batch, {0, false});
      if (!run.ok()) return run.status();
      if (batch == kFirstBatches[0]) {
        if (Status s = WeighUnknownReads(**run, batch); !s.ok()) return s;
        if (!answer_.prediction.unknown.empty()) return Describe(**run);
      }
      LearnContext(**run);
    }
    const double limit =
        static_cast<double>(options_.allocator_limit.value_or(options_.total_bytes));
    Result<std::int64_t> fits = Search(
        0, std::min(static_cast<double>(TargetBytes() - context_.value), limit),
        [this](const ScriptRun& run) { return Fits(run); }, &ProbeAnswer::peak_reserved);
    if (!fits.ok()) return fits.status();
    Result<std::int64_t> runs = Search(
        *fits, std::min(static_cast<double>(options_.total_bytes - context_.value), limit),
        [this](const ScriptRun& run) { return !RanOut(run); }, &ProbeAnswer::peak_allocated);
    if (!runs.ok()) return runs.status();
    Prediction& prediction = answer_.prediction;
    prediction.largest_batch = *fits;
    prediction.largest_batch_before_oom = *runs;
    const std::int64_t shown = std::max<std::int64_t>(1, *fits);
    Result<const ScriptRun*> run = RunOnce(shown, {*fits > 0 ? options_.total_bytes : 0, false});
    if (!run.ok()) return run.status();
    if (Status s = Describe(**run); !s.ok()) return s;
    prediction.batch = shown;
    prediction.verdict = *fits > 0 ? Verdict::kFits : Verdict::kDoesNotFit;
    prediction.reason = *fits > 0 ? "batch " + std::to_string(*fits) + " takes " +
                                        FormatBytes(prediction.peak->device) + " of " +
                                        FormatBytes(options_.total_bytes) + "; batch " +
                                        std::to_string(*fits + 1) + " does not fit the target"
                                  : "even batch 1 takes " + FormatBytes(prediction.peak->device) +
                                        " of " + FormatBytes(options_.total_bytes);
    return {};
  }

  template <typename Holds>
  Result<std::int64_t> Search(std::int64_t known_true, double budget, const Holds& holds,
                              std::optional<Bytes> ProbeAnswer::*measure) {
    SearchOptions search;
    search.known_true = known_true;
    search.budget = budget;
    search.side_by_side = 1;  // a script may keep its files, ports and processors to itself
    search.largest = options_.largest_batch;
    for (const auto& [key, run] : runs_) {
      if (key.second.other_answers) continue;
      if (!RanOut(run)) search.measures[key.first] = Most(run, measure);
      if (key.second.total == 0) continue;
      if (holds(run)) search.known_true = std::max(search.known_true, key.first);
    }
    for (const auto& [key, run] : runs_) {
      if (key.second.total != 0 && key.first > search.known_true && !holds(run)) {
        search.known_false = std::min(search.known_false.value_or(key.first), key.first);
      }
    }
    Result<std::int64_t> found = LargestBatch(
        search, [&](const std::vector<std::int64_t>& batches) -> Result<std::vector<Trial>> {
          std::vector<Trial> trials;
          for (const std::int64_t batch : batches) {
            Result<const ScriptRun*> run = RunOnce(batch, {options_.total_bytes, false});
            if (!run.ok()) return run.status();
            if (Status s = CheckGrowth(batch, **run); !s.ok()) return s;
            Trial trial{holds(**run), std::nullopt};
            if (!RanOut(**run)) trial.measure = Most(**run, measure);
            trials.push_back(trial);
          }
          return trials;
        });
    if (found.ok() && *found >= options_.largest_batch) {
      return Status::Unknown("batch " + std::to_string(*found) +
                             " still fits, and larger ones were not tried");
    }
    return found;
  }

  // A script whose data ends before the batch does trains on smaller ones.
  Status CheckGrowth(std::int64_t batch, const ScriptRun& run) const {
    if (RanOut(run)) return {};
    for (const auto& [key, other] : runs_) {
      if (key.first >= batch || RanOut(other)) continue;
      if (Most(other, &ProbeAnswer::peak_allocated) == Most(run, &ProbeAnswer::peak_allocated)) {
        return Status::Unknown(
            "memory is the same at batch " + std::to_string(key.first) + " and " +
            std::to_string(batch) +
            ": {batch} does not reach the model, or the data set has no more "
            "samples. Give the script enough data (synthetic will do) for the largest batch");
      }
    }
    return {};
  }

  // ---- running ----

  // Runs the script with this batch on such a card, if it was not run yet. The run
  // used a GPU, or this is a Status.
  Result<const ScriptRun*> RunOnce(std::int64_t batch, Card card) {
    const auto key = std::pair(batch, card);
    if (const auto found = runs_.find(key); found != runs_.end()) return &found->second;
    ScriptOptions script;
    script.command = WithBatch(options_.command, batch);
    script.device_file = options_.device.path;
    script.total_bytes = card.total;
    script.context_bytes = context_.value;
    script.gpus = options_.gpus;
    script.steps = options_.steps;
    script.eager = options_.eager;
    script.other_answers = card.other_answers;
    script.allocator_limit = card.total > 0 ? options_.allocator_limit : std::nullopt;
    script.alloc_conf = options_.alloc_conf;
    script.timeout_s = options_.timeout_s;
    script.interrupt_fd = options_.interrupt_fd;
    script.quiet = !runs_.empty();  // its output was shown once
    if (batch > 0) Say("batch " + std::to_string(batch));
    Result<ScriptRun> run = RunScript(tools_, script, folder_ + "/" + std::to_string(runs_.size()));
    if (!run.ok()) return run.status();
    if (Status s = Judge(options_, *run); !s.ok()) {
      return batch > 0 ? Status(s.code(), "at batch " + std::to_string(batch) + ": " + s.message())
                       : s;
    }
    const ScriptRun* kept = &runs_.emplace(key, *std::move(run)).first->second;
    LearnContext(*kept);
    if (batch > 0 && !card.other_answers) answer_.probes.push_back(Probe(batch, card, *kept));
    return kept;
  }

  [[nodiscard]] BatchProbe Probe(std::int64_t batch, Card card, const ScriptRun& run) const {
    BatchProbe probe;
    probe.batch = batch;
    probe.seconds = run.elapsed_ms / 1000;
    for (const ProcessReport& report : run.reports) {
      probe.steps_done = std::max(probe.steps_done, report.steps_done);
    }
    if (RanOut(run)) {
      probe.outcome = "out of memory";
      return probe;
    }
    const ProcessReport& most = Heaviest(run);
    probe.peak = PeakOf(most);
    probe.outcome = card.total == 0    ? "measured"
                    : Retries(run) > 0 ? "retries"
                    : Fits(run)        ? "fits"
                                       : "above target";
    return probe;
  }

  [[nodiscard]] static bool RanOut(const ScriptRun& run) {
    return std::any_of(run.reports.begin(), run.reports.end(), [](const ProcessReport& report) {
      return report.answer.outcome == Outcome::kOutOfMemory;
    });
  }
  [[nodiscard]] static std::int64_t Retries(const ScriptRun& run) {
    std::int64_t retries = 0;
    for (const ProcessReport& report : run.reports) retries += report.answer.retries;
    return retries;
  }
  [[nodiscard]] bool Fits(const ScriptRun& run) const {
    return !RanOut(run) && Retries(run) == 0 && PeakOf(Heaviest(run)).device <= TargetBytes();
  }
  [[nodiscard]] static double Most(const ScriptRun& run,
                                   std::optional<Bytes> ProbeAnswer::*measure) {
    Bytes most = 0;
    for (const ProcessReport& report : run.reports) {
      most = std::max(most, (report.answer.*measure).value_or(0));
    }
    return static_cast<double>(most);
  }
  // The process that reserves most.
  [[nodiscard]] static const ProcessReport& Heaviest(const ScriptRun& run) {
    return *std::max_element(
        run.reports.begin(), run.reports.end(), [](const ProcessReport& a, const ProcessReport& b) {
          return a.answer.peak_reserved.value_or(0) < b.answer.peak_reserved.value_or(0);
        });
  }
  [[nodiscard]] Peak PeakOf(const ProcessReport& report) const {
    const Bytes reserved = report.answer.peak_reserved.value_or(0);
    return {report.answer.peak_allocated.value_or(0), reserved, reserved + context_.value};
  }

  // ---- values that only a kernel knows ----

  Status WeighUnknownReads(const ScriptRun& run, std::int64_t batch) {
    std::vector<ScriptRead> open;
    for (const ProcessReport& report : run.reports) {
      for (const ScriptRead& read : report.harmless) {
        answer_.harmless.push_back({read.where, read.reason, read.count});
      }
      open.insert(open.end(), report.unknown.begin(), report.unknown.end());
    }
    if (open.empty()) return {};
    Say("running it again with other values where it reads what only a kernel computes");
    Result<const ScriptRun*> other = RunOnce(batch, {options_.total_bytes, true});
    std::string difference = other.ok() ? FirstDifference(run, **other) : open.back().where;
    if (difference.empty()) {
      for (const ScriptRead& read : open) {
        answer_.harmless.push_back(
            {read.where, "no request depends on it (tried with 0 and 1)", read.count});
      }
      return {};
    }
    Prediction& prediction = answer_.prediction;
    prediction.unknown.push_back({difference, ""});
    prediction.verdict = Verdict::kUnknown;
    prediction.reason =
        "the memory depends on a value that only a real run computes: " + difference;
    return {};
  }

  // ---- what a run says ----

  void LearnContext(const ScriptRun& run) {
    if (context_known_ || run.reports.empty() || RanOut(run)) return;
    const ProcessReport& report = Heaviest(run);
    const DeviceTrace* device = report.device();
    const Result<Trace> trace =
        device == nullptr ? Result<Trace>(Status::Internal("no trace")) : ReadTrace(device->path);
    context_ = EstimateContext(options_.device,
                               CountHandles(report.answer, trace.ok() ? &*trace : nullptr));
    context_known_ = true;
  }

  Status Describe(const ScriptRun& run) {
    Prediction& prediction = answer_.prediction;
    const ProcessReport& report = Heaviest(run);
    const ProbeAnswer& probe = report.answer;
    prediction.model_kind = "script";
    prediction.batch = report.batch;
    prediction.torch_version = report.torch_version;
    prediction.cudnn_version = report.cudnn_version;
    prediction.workspace_basis = probe.workspace_basis;
    prediction.retries = probe.retries;
    prediction.ooms = probe.ooms;
    prediction.segments = probe.segments;
    prediction.timings.trace_ms = probe.elapsed_ms;
    for (const ProbeAnswer::Refused& refused : probe.refused) {
      if (!refused.function.starts_with("cupti")) prediction.refused.push_back(refused.function);
    }
    answer_.steps_done = report.steps_done;
    for (const ProcessReport& one : run.reports) {
      answer_.ranks.push_back({one.rank, one.device() == nullptr ? 0 : one.device()->device,
                               one.steps_done, one.batch, PeakOf(one), one.answer.retries,
                               one.answer.ooms});
    }
    prediction.peak = PeakOf(report);
    prediction.context = context_.value;
    prediction.interval = Interval{prediction.peak->reserved + context_.low,
                                   prediction.peak->reserved + context_.high, context_.basis};
    AddNotes(report, run);
    return DescribeTrace(report);
  }

  void AddNotes(const ProcessReport& report, const ScriptRun& run) {
    if (report.steps_done == 0) {
      answer_.notes.push_back("no optimizer step was seen: the figures are of the whole script");
    } else if (options_.steps > 0 && report.steps_done < options_.steps && !RanOut(run)) {
      answer_.notes.push_back("the script ended after " + std::to_string(report.steps_done) +
                              " of " + std::to_string(options_.steps) + " steps");
    }
    if (report.answer.ooms > 0 && !RanOut(run)) {
      answer_.notes.push_back("the script met " + std::to_string(report.answer.ooms) +
                              " out-of-memory errors and went on");
    }
    if (report.world_size > 1) {
      answer_.notes.push_back(
          "NCCL's own buffers come on top of what nvidia-smi shows for each GPU (about 840 MiB "
          "measured for 2 ranks on an H200); they are not in these figures");
    }
  }

  Status DescribeTrace(const ProcessReport& report) {
    const DeviceTrace* device = report.device();
    if (device == nullptr) return {};
    if (!device->complete) {
      answer_.notes.emplace_back(
          "the allocator's history is not complete (the script records its own, or "
          "made more requests than are kept): no breakdown");
      return {};
    }
    Result<Trace> trace = ReadTrace(device->path);
    if (!trace.ok()) return trace.status();
    Result<MemoryUse> use = Classify(*trace, {options_.alloc_conf});
    if (!use.ok()) {
      answer_.notes.push_back("no breakdown: " + use.status().message());
      return {};
    }
    answer_.prediction.use = *std::move(use);
    return {};
  }

  void Say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }
  [[nodiscard]] Bytes TargetBytes() const {
    return static_cast<Bytes>(options_.target * static_cast<double>(options_.total_bytes));
  }

  const RunOptions& options_;
  ScriptTools tools_;
  std::string folder_;
  ContextEstimate context_;
  bool context_known_ = false;
  std::map<std::pair<std::int64_t, Card>, ScriptRun> runs_;
  RunAnswer answer_;
};

}  // namespace

bool IsValid(const RunOptions& options, std::string* reason) {
  const auto wrong = [reason](const std::string& text) {
    *reason = text;
    return false;
  };
  if (options.command.empty()) {
    return wrong("what is to be run? Give the command after --, such as -- python train.py");
  }
  const bool place =
      std::any_of(options.command.begin(), options.command.end(),
                  [](const auto& word) { return word.find(kBatchPlace) != std::string::npos; });
  if (options.find_batch && !place) {
    return wrong(
        "--find-batch needs {batch} in the command, where the batch size stands, such as "
        "--batch-size {batch}");
  }
  if (!options.find_batch && place) return wrong("{batch} in the command needs --find-batch");
  if (!(options.target > 0 && options.target <= 1)) {
    return wrong("--target is " + std::to_string(options.target) +
                 "; it must be above 0 and at most 1");
  }
  if (options.steps < 0 || options.steps > 100000) {
    return wrong("--steps is " + std::to_string(options.steps) + "; it must be 0 to 100000");
  }
  if (options.gpus < 1 || options.gpus > 64) {
    return wrong("--gpus is " + std::to_string(options.gpus) + "; it must be 1 to 64");
  }
  if (options.allocator_limit && *options.allocator_limit <= 0) {
    return wrong("--allocator-limit must be above 0");
  }
  if (!options.device.unsupported.empty()) {
    return wrong(options.device.device_name + " cannot be used: " + options.device.unsupported);
  }
  if (options.total_bytes <= options.device.context.base) {
    return wrong("--gpu-mem of " + FormatBytes(options.total_bytes) +
                 " is less than the CUDA context alone takes");
  }
  return true;
}

Result<RunAnswer> Run(const RunOptions& options) {
  std::string reason;
  if (!IsValid(options, &reason)) return Status::InvalidArgument(reason);
  Result<ScriptTools> tools = FindScriptTools();
  if (!tools.ok()) return tools.status();
  if (!options.cache.empty()) tools->cache = options.cache;
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  return Runner(options, *std::move(tools), folder->path()).Answer();
}

}  // namespace memmodel
