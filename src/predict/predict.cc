// From the job to the verdict.
//
// With a batch: it is run on the virtual card with its true capacity. If it goes
// through without a retry, what it needed is what it needs; if not, it is run
// once more on a card without end, which shows how much that would be.
//
// Without one: a few batches on a card without end show how memory grows; the
// largest batch is then looked for among runs on the card with its true capacity,
// so that the real allocator, with its retries and cuDNN's second choices, has
// the last word on the answer and on the batch after it.
#include "memmodel/predict.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/predict/card_trials.h"
#include "src/predict/certain.h"
#include "src/predict/context.h"
#include "src/predict/guess.h"
#include "src/predict/largest_batch.h"
#include "src/predict/prober.h"
#include "src/predict/words.h"

namespace memmodel {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The batches that show how memory grows: these, and the largest of the others that
// the line through them puts on the card.
const std::vector<std::int64_t> kFirstBatches = {1, 4};
const std::vector<std::int64_t> kLargerBatches = {64, 16};

class Predictor {
 public:
  Predictor(const PredictOptions& options, Child* child, LoadedModel loaded,
            const std::string& trace_folder)
      : options_(options),
        child_(child),
        trace_folder_(trace_folder),
        loaded_(std::move(loaded)),
        context_(EstimateContext(options.device, {})),
        prober_(options, trace_folder_, child),
        card_(options, trace_folder_, child, &prober_) {
    prediction_.model_kind = loaded_.kind;
    prediction_.inputs = loaded_.inputs;
    prediction_.loss = loaded_.loss;
    prediction_.parameters = loaded_.parameters;
    prediction_.assumptions = loaded_.assumptions;
    if (card_.plans_unknown()) prediction_.assumptions.emplace_back(CardTrials::kAssumed);
    prediction_.torch_version = loaded_.torch_version;
    prediction_.cudnn_version = loaded_.cudnn_version;
  }

  Result<Prediction> Run() {
    if (loaded_.kind == "state_dict") return AnswerFromTensors();
    std::optional<std::int64_t> batch = options_.batch;
    if (loaded_.batch_fixed) {
      if (batch && *batch != *loaded_.batch_fixed) {
        return Status::InvalidArgument(options_.job.model + " was exported for batch " +
                                       std::to_string(*loaded_.batch_fixed) +
                                       " alone; export it with a symbolic batch to ask for " +
                                       std::to_string(*batch) + " (scripts/export_model.py does)");
      }
      if (!batch) {
        prediction_.assumptions.push_back("batch " + std::to_string(*loaded_.batch_fixed) +
                                          ", the only one that the file was exported for");
      }
      batch = loaded_.batch_fixed;
    }
    Status status = batch ? RunBatch(*batch) : RunLargest();
    if (!status.ok()) return status;
    return std::move(prediction_);
  }

 private:
  Status RunBatch(std::int64_t batch) {
    if (Status s = prober_.Run(CardSize::kTrue, {batch}); !s.ok()) return s;
    const ProbeAnswer& card = prober_.At(CardSize::kTrue, batch).answer;
    if (card.outcome == Outcome::kError) return RunError(options_.job.model, card);
    if (FindUnknown(card, batch)) return {};
    if (prober_.Need(batch) == nullptr) {
      if (Status s = prober_.Run(CardSize::kUnlimited, {batch}); !s.ok()) return s;
    }
    if (Status s = Describe(batch); !s.ok()) return s;
    const Result<std::vector<Trial>> trial = card_.Try({batch}, fits_);
    if (!trial.ok()) return trial.status();
    prediction_.verdict = trial->front().holds ? Verdict::kFits : Verdict::kDoesNotFit;
    prediction_.reason =
        ReasonForBatch(options_, prediction_, card.outcome == Outcome::kOk, card.retries);
    return {};
  }

  Status RunLargest() {
    Result<std::vector<std::int64_t>> first = FirstBatches();
    if (!first.ok()) return first.status();
    for (const std::int64_t batch : *first) {
      if (FindUnknown(Unlimited(batch), batch)) return {};
    }
    LearnContext(first->back());
    Result<std::int64_t> fits = Search(*first);
    if (!fits.ok()) return fits.status();
    if (options_.before_oom) {
      const Result<std::int64_t> runs = Climb(*first, *fits);
      if (!runs.ok()) return runs.status();
      prediction_.largest_batch_before_oom = *runs;
    }
    if (const std::string& error = card_.first_error(); !error.empty()) {
      prediction_.assumptions.push_back(error);
    }
    prediction_.largest_batch = *fits;
    std::int64_t shown = std::max<std::int64_t>(1, *fits);
    if (prober_.Need(shown) == nullptr) {
      if (Status s = prober_.Run(CardSize::kUnlimited, {shown}); !s.ok()) return s;
      if (prober_.Need(shown)->answer.outcome == Outcome::kError) shown = first->front();
    }
    if (FindUnknown(prober_.Need(shown)->answer, shown)) return {};
    if (Status s = Describe(shown); !s.ok()) return s;
    prediction_.verdict = *fits > 0 ? Verdict::kFits : Verdict::kDoesNotFit;
    prediction_.reason = ReasonForLargest(options_, prediction_);
    return {};
  }

  // Runs a few batches on a card without end; those that went through.
  Result<std::vector<std::int64_t>> FirstBatches() {
    const bool asked = !options_.first_batches.empty();
    std::vector<std::int64_t> good;
    const auto run = [&](const std::vector<std::int64_t>& batches) {
      const Status status = prober_.Run(CardSize::kUnlimited, batches);
      for (const std::int64_t batch : batches) {
        if (status.ok() && Unlimited(batch).outcome == Outcome::kOk) good.push_back(batch);
      }
      return status;
    };
    if (Status s = run(asked ? options_.first_batches : kFirstBatches); !s.ok()) return s;
    for (const std::int64_t batch : asked ? std::vector<std::int64_t>{} : kLargerBatches) {
      if (good.size() == 2 && batch > Line(good)) continue;
      if (Status s = run({batch}); !s.ok()) return s;
      break;
    }
    if (Status s = good.empty() ? run({2}) : Status(); !s.ok()) return s;
    if (!good.empty()) return good;
    const ProbeAnswer& answer = Unlimited(2);
    if (answer.outcome == Outcome::kError) return RunError(options_.job.model, answer);
    return Status::Unavailable("batch " + std::to_string(answer.batch) +
                               " asks for more memory than any GPU has; check --input");
  }

  // The batch at which all memory is reserved, by the first and the last of `batches`.
  [[nodiscard]] std::int64_t Line(const std::vector<std::int64_t>& batches) const {
    const auto point = [this](std::int64_t batch) {
      return std::pair(batch, static_cast<double>(*Unlimited(batch).peak_reserved));
    };
    return LineMeets(point(batches.front()), point(batches.back()),
                     std::min(static_cast<double>(Capacity()), Limit()));
  }

  // Where the simulator expects the largest batch that fits, from the traces of `batches`.
  [[nodiscard]] std::optional<std::int64_t> Guess(const std::vector<std::int64_t>& batches) const {
    std::vector<Trace> traces;
    for (const std::int64_t batch : batches) {
      Result<Trace> trace = ReadTrace(prober_.At(CardSize::kUnlimited, batch).trace);
      if (!trace.ok()) return std::nullopt;
      traces.push_back(*std::move(trace));
    }
    if (options_.progress) options_.progress("simulating");
    const GuessLimits limits{options_.job.alloc_conf, TargetBytes() - context_.value, Capacity(),
                             options_.allocator_limit};
    return GuessLargest(traces, limits);
  }

  // The largest batch that fits the target without a retry.
  Result<std::int64_t> Search(const std::vector<std::int64_t>& first) {
    SearchOptions search;
    search.first_guess = Guess(first);
    search.budget = std::min(static_cast<double>(TargetBytes() - context_.value), Limit());
    search.side_by_side = options_.parallel_probes;
    for (const std::int64_t batch : first) {
      search.measures[batch] = static_cast<double>(*Unlimited(batch).peak_reserved);
    }
    return LargestBatch(search, [this](const std::vector<std::int64_t>& batches) {
      return card_.Try(batches, fits_);
    });
  }

  // The largest batch that runs.
  Result<std::int64_t> Climb(const std::vector<std::int64_t>& first, std::int64_t fits) {
    ClimbOptions climb;
    climb.start = Line(first);
    climb.known_true = fits;
    climb.side_by_side = options_.parallel_probes;
    return card_.Climb(climb);
  }

  // The figures of `batch`, from the run that shows what it needs.
  Status Describe(std::int64_t batch) {
    prediction_.batch = batch;
    const ProbeRun* run = prober_.Need(batch);
    if (run == nullptr || run->answer.outcome != Outcome::kOk) return {};
    const ProbeAnswer& answer = run->answer;
    LearnContext(batch);
    prediction_.workspace_basis = answer.workspace_basis;
    DescribeCalls(answer, &prediction_);
    prediction_.timings.trace_ms = answer.elapsed_ms;
    prediction_.segments = answer.segments;
    prediction_.retries = answer.retries;
    prediction_.ooms = answer.ooms;
    prediction_.peak =
        Peak{*answer.peak_allocated, *answer.peak_reserved, *answer.peak_reserved + context_.value};
    prediction_.context = context_.value;
    prediction_.interval = Interval{*answer.peak_reserved + context_.low,
                                    *answer.peak_reserved + context_.high, context_.basis};
    for (const auto& [key, other] : prober_.runs()) {
      if (other.answer.outcome == Outcome::kOk && other.answer.retries == 0) AddCurvePoint(other);
    }
    if (card_.plans_unknown()) {
      const Result<ProbeAnswer> other = card_.NeedOfLargest(batch);
      if (!other.ok()) return other.status();
      WidenInterval(*other);
      prediction_.interval->basis.insert(0, CardTrials::kBasis);
    }
    if (!answer.unknown.empty()) {
      if (Status s = BoundUnknown(batch); !s.ok()) return s;
    }
    return DescribeTrace(batch, *run);
  }

  // Where counts are unknown, the figure lies between the runs with none of them
  // and with all.
  Status BoundUnknown(std::int64_t batch) {
    for (const double share : {0.0, 1.0}) {
      PredictOptions options = options_;
      options.unknown_count = share;
      Prober prober(options, trace_folder_, child_, share == 0 ? "none-" : "all-");
      if (Status s = prober.Run(CardSize::kUnlimited, {batch}); !s.ok()) return s;
      WidenInterval(prober.At(CardSize::kUnlimited, batch).answer);
    }
    prediction_.interval->basis =
        "unknown counts from none to all of the largest possible; " + prediction_.interval->basis;
    return {};
  }

  void WidenInterval(const ProbeAnswer& end) {
    if (end.outcome != Outcome::kOk) return;
    Interval& interval = *prediction_.interval;
    interval.low = std::min(interval.low, *end.peak_reserved + context_.low);
    interval.high = std::max(interval.high, *end.peak_reserved + context_.high);
  }

  void AddCurvePoint(const ProbeRun& run) {
    const ProbeAnswer& answer = run.answer;
    for (const CurvePoint& point : prediction_.curve) {
      if (point.batch == answer.batch) return;
    }
    prediction_.curve.push_back(
        {answer.batch,
         {*answer.peak_allocated, *answer.peak_reserved, *answer.peak_reserved + context_.value}});
    std::sort(prediction_.curve.begin(), prediction_.curve.end(),
              [](const CurvePoint& a, const CurvePoint& b) { return a.batch < b.batch; });
  }

  Status DescribeTrace(std::int64_t batch, const ProbeRun& run) {
    Result<Trace> trace = ReadTrace(run.trace);
    if (!trace.ok()) return trace.status();
    Result<MemoryUse> use = Classify(*trace, {options_.job.alloc_conf});
    if (!use.ok()) return use.status();
    prediction_.trace = *std::move(trace);
    if (use->breakdown.allocated_peak != prediction_.peak->allocated ||
        use->breakdown.reserved_peak != prediction_.peak->reserved) {
      return Status::Internal("the trace at batch " + std::to_string(batch) + " peaks at " +
                              std::to_string(use->breakdown.allocated_peak) +
                              " bytes, the allocator at " +
                              std::to_string(prediction_.peak->allocated));
    }
    prediction_.use = *std::move(use);
    for (const auto& [key, other] : prober_.runs()) {
      if (key.second == batch || other.answer.outcome != Outcome::kOk) continue;
      const Result<Trace> other_trace = ReadTrace(other.trace);
      if (!other_trace.ok()) return other_trace.status();
      const Result<MemoryUse> other_use = Classify(*other_trace, {options_.job.alloc_conf});
      if (!other_use.ok()) return other_use.status();
      AddPerSample(&prediction_.use->layers, batch, other_use->layers, key.second);
      break;
    }
    return {};
  }

  // Takes the context from the libraries that this batch opened. Once known it
  // stays: it does not depend on the batch.
  void LearnContext(std::int64_t batch) {
    if (context_known_) return;
    const ProbeRun* run = prober_.Need(batch);
    if (run == nullptr || run->answer.outcome != Outcome::kOk) return;
    const Result<Trace> trace = ReadTrace(run->trace);
    context_ = ContextOf(options_.device, run->answer, trace.ok() ? &*trace : nullptr);
    context_known_ = true;
  }

  // Whether the answer hangs on something that only a kernel could know.
  // Then no figure of it is given.
  bool FindUnknown(const ProbeAnswer& answer, std::int64_t batch) {
    prediction_.batch = batch;
    for (const UnknownRead& read : answer.unknown) {
      const auto same = [&](const UnknownValue& v) {
        return v.op == read.op && v.module == read.module;
      };
      if (std::none_of(prediction_.unknown.begin(), prediction_.unknown.end(), same)) {
        prediction_.unknown.push_back({read.op, read.module});
      }
    }
    if (prediction_.unknown.empty() || options_.unknown_count) return false;
    prediction_.verdict = Verdict::kUnknown;
    prediction_.reason = ReasonForUnknown(prediction_.unknown.front());
    return true;
  }

  Result<Prediction> AnswerFromTensors() {
    const CertainBytes certain = CertainMemory(options_.job, loaded_);
    prediction_.certain_bytes = certain.total() + options_.device.context.base;
    const bool too_much = *prediction_.certain_bytes > Total();
    prediction_.verdict = too_much ? Verdict::kDoesNotFit : Verdict::kUnknown;
    prediction_.reason = ReasonForTensors(options_, certain, *prediction_.certain_bytes);
    return std::move(prediction_);
  }

  [[nodiscard]] Bytes Total() const { return options_.total_bytes; }
  [[nodiscard]] Bytes TargetBytes() const {
    return static_cast<Bytes>(options_.target * static_cast<double>(Total()));
  }
  // What the driver leaves to the process beside its context.
  [[nodiscard]] Bytes Capacity() const {
    return Total() - context_.value - options_.device.context.system.value_or(0);
  }
  [[nodiscard]] const ProbeAnswer& Unlimited(std::int64_t batch) const {
    return prober_.At(CardSize::kUnlimited, batch).answer;
  }
  [[nodiscard]] double Limit() const {
    return static_cast<double>(options_.allocator_limit.value_or(Total()));
  }

  const PredictOptions& options_;
  Child* child_;
  std::string trace_folder_;
  LoadedModel loaded_;
  ContextEstimate context_;
  bool context_known_ = false;
  Prober prober_;
  CardTrials card_;
  Prediction prediction_;
  const CardTrials::Holds fits_ = [this](const ProbeAnswer& answer) {
    return answer.outcome == Outcome::kOk && answer.retries == 0 &&
           *answer.peak_reserved + context_.value <= TargetBytes();
  };
};

}  // namespace

Result<Prediction> Predict(const PredictOptions& given) {
  const Clock::time_point start = Clock::now();
  PredictOptions options = given;
  if (options.total_bytes == 0) options.total_bytes = options.device.total_bytes;
  std::string reason;
  if (!IsValid(options, &reason)) return Status::InvalidArgument(reason);
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  if (options.progress) options.progress("loading " + options.job.model);
  Result<std::unique_ptr<Child>> child = Child::Start(options.child, options.job);
  if (!child.ok()) return child.status();
  Result<LoadedModel> loaded = (*child)->WaitLoaded();
  if (!loaded.ok()) return loaded.status();
  const double loaded_at = MillisecondsSince(start);
  const double load_ms = loaded->load_ms;
  Predictor predictor(options, child->get(), *std::move(loaded), folder->path());
  Result<Prediction> prediction = predictor.Run();
  if (!prediction.ok()) return prediction;
  Prediction::Timings& timings = prediction->timings;
  timings.load_ms = load_ms;
  timings.start_ms = std::max(0.0, loaded_at - load_ms);
  timings.total_ms = MillisecondsSince(start);
  timings.solve_ms = std::max(0.0, timings.total_ms - loaded_at - timings.trace_ms);
  return prediction;
}

}  // namespace memmodel
