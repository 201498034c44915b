#include "src/explain/fit_job.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/calibrate/ask_workspaces.h"
#include "src/predict/context.h"
#include "src/predict/trace_job.h"
#include "src/predict/words.h"

namespace memmodel {
namespace {

constexpr std::int64_t kMostPlanBatches = 1024;

class JobFitter {
 public:
  JobFitter(const FitJobOptions& options, JobTracer* tracer)
      : options_(options), tracer_(*tracer) {}

  Result<MemoryModel> Run() {
    if (Status s = First(); !s.ok()) return s;
    while (true) {
      const Result<MemoryModel> model = Fit(0);
      if (!model.ok()) return model.status();
      const std::vector<std::int64_t> next = Next(*model);
      if (next.empty()) break;
      if (Status s = Trace(next); !s.ok()) return s;
    }
    return Fit(options_.model.curve_batches);
  }

 private:
  Status First() {
    if (Status s = tracer_.Run({1, 8, 32, 64}); !s.ok()) return s;
    // Batch norm over one sample of one pixel is refused.
    const std::int64_t least = tracer_.At(1).ok() ? 1 : 2;
    return Trace({least, 8, 32, 64});
  }

  Status Trace(const std::vector<std::int64_t>& batches) {
    if (Status s = tracer_.Run(batches); !s.ok()) return s;
    for (const std::int64_t batch : batches) {
      Result<TracedRun> run = tracer_.At(batch);
      if (!run.ok()) return run.status();
      if (!run->answer.unknown.empty() && !options_.predict.unknown_count) {
        const UnknownRead& read = run->answer.unknown.front();
        return Status::Unknown(ReasonForUnknown({read.op, read.module}));
      }
      const ContextEstimate context = ContextOf(options_.predict.device, run->answer, &run->trace);
      context_ = std::max(context_, context.value);
      traces_.push_back(std::move(run->trace));
      traced_.insert(batch);
    }
    return AskForWorkspaces();
  }

  // Of new traces only what was not asked before.
  Status AskForWorkspaces() {
    if (options_.plan_batches == 0) return {};
    Result<std::vector<std::string>> keys =
        MemoryModel::WorkspaceKeys(traces_, options_.plan_batches);
    if (!keys.ok()) return keys.status();
    std::erase_if(*keys, [&](const std::string& key) { return workspaces_.contains(key); });
    if (keys->empty()) return {};
    const PredictOptions& predict = options_.predict;
    if (predict.progress) {
      predict.progress("asking for " + std::to_string(keys->size()) + " workspaces");
    }
    auto answers = AskWorkspaces(predict.child, predict.job.device, *keys, predict.parallel_probes);
    if (!answers.ok()) return answers.status();
    workspaces_.merge(*answers);
    return {};
  }

  [[nodiscard]] Result<MemoryModel> Fit(std::int64_t curve_batches) const {
    ModelOptions options = options_.model;
    options.curve_batches = curve_batches;
    if (!options.context_bytes) options.context_bytes = context_;
    options.workspaces = workspaces_;
    return MemoryModel::Fit(traces_, options);
  }

  // The largest batch that the budget allows, if it was not run; and the middles
  // of the widest intervals, as many as there are traces, so that few rounds do.
  [[nodiscard]] std::vector<std::int64_t> Next(const MemoryModel& model) const {
    const std::size_t left = static_cast<std::size_t>(options_.traces) - traced_.size();
    std::vector<std::int64_t> next;
    if (options_.budget && left > 0) {
      const Result<BatchLimit> limit = model.Solve(*options_.budget);
      const bool ask = limit.ok() && limit->bounded && limit->batch > 0;
      if (ask && !traced_.contains(limit->batch)) next.push_back(limit->batch);
    }
    std::vector<std::pair<Bytes, std::int64_t>> middles;
    for (auto low = traced_.begin(); std::next(low) != traced_.end(); ++low) {
      const std::int64_t middle = *low + (*std::next(low) - *low) / 2;
      if (middle == *low) continue;
      const Result<BatchMemory> memory = model.At(middle);
      if (!memory.ok()) continue;
      const Bytes width = memory->allocated_range.high - memory->allocated_range.low +
                          memory->reserved_range.high - memory->reserved_range.low;
      if (width > 0) middles.emplace_back(width, middle);
    }
    std::sort(middles.begin(), middles.end(), std::greater<>());
    for (const auto& [width, middle] : middles) {
      if (next.size() >= std::min(left, traced_.size())) break;
      if (middle != (next.empty() ? 0 : next.front())) next.push_back(middle);
    }
    return next;
  }

  const FitJobOptions& options_;
  JobTracer& tracer_;
  std::vector<memmodel::Trace> traces_;
  std::set<std::int64_t> traced_;
  WorkspaceAnswers workspaces_;
  Bytes context_ = 0;
};

}  // namespace

Result<MemoryModel> FitJob(const FitJobOptions& options) {
  if (options.traces < 4 || options.traces > 64) {
    return Status::InvalidArgument("--traces is " + std::to_string(options.traces) +
                                   "; it must be 4 to 64");
  }
  if (options.plan_batches < 0 || options.plan_batches > kMostPlanBatches) {
    return Status::InvalidArgument("--plan-batches is " + std::to_string(options.plan_batches) +
                                   "; it must be 0 to " + std::to_string(kMostPlanBatches));
  }
  const Result<std::unique_ptr<JobTracer>> tracer = JobTracer::Start(options.predict);
  if (!tracer.ok()) return tracer.status();
  if ((*tracer)->loaded().batch_fixed) {
    return Status::InvalidArgument(options.predict.job.model + " was exported for batch " +
                                   std::to_string(*(*tracer)->loaded().batch_fixed) +
                                   " alone; a model of the batch needs others "
                                   "(scripts/export_model.py exports a symbolic batch)");
  }
  return JobFitter(options, tracer->get()).Run();
}

}  // namespace memmodel
