#include "src/predict/trace_job.h"

#include <utility>

#include "src/predict/words.h"

namespace memmodel {

JobTracer::JobTracer(const PredictOptions& options, TemporaryFolder folder,
                     std::unique_ptr<Child> child, LoadedModel loaded)
    : options_(options),
      folder_(std::move(folder)),
      child_(std::move(child)),
      loaded_(std::move(loaded)),
      prober_(options_, folder_.path(), child_.get()) {}

Result<std::unique_ptr<JobTracer>> JobTracer::Start(const PredictOptions& given) {
  PredictOptions options = given;
  options.batch.reset();
  if (options.total_bytes == 0) options.total_bytes = options.device.total_bytes;
  std::string reason;
  if (!IsValid(options, &reason)) return Status::InvalidArgument(reason);
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  Result<std::unique_ptr<Child>> child = Child::Start(options.child, options.job);
  if (!child.ok()) return child.status();
  Result<LoadedModel> loaded = (*child)->WaitLoaded();
  if (!loaded.ok()) return loaded.status();
  if (loaded->kind == "state_dict") {
    return Status::Unknown(options.job.model +
                           " holds tensors without a program; export the module with "
                           "scripts/export_model.py");
  }
  return std::unique_ptr<JobTracer>(
      new JobTracer(options, *std::move(folder), *std::move(child), *std::move(loaded)));
}

Status JobTracer::Run(const std::vector<std::int64_t>& batches) {
  for (const std::int64_t batch : batches) {
    PredictOptions one = options_;
    one.batch = batch;
    std::string reason;
    if (!IsValid(one, &reason)) return Status::InvalidArgument(reason);
  }
  return prober_.Run(CardSize::kUnlimited, batches);
}

Result<TracedRun> JobTracer::At(std::int64_t batch) const {
  const ProbeRun& run = prober_.At(CardSize::kUnlimited, batch);
  if (run.answer.outcome == Outcome::kError) return RunError(options_.job.model, run.answer);
  if (run.answer.outcome == Outcome::kOutOfMemory) {
    return Status::BadInput("batch " + std::to_string(batch) +
                            " asks for more memory than any GPU has");
  }
  Result<Trace> trace = ReadTrace(run.trace);
  if (!trace.ok()) return trace.status();
  return TracedRun{batch, *std::move(trace), run.answer};
}

}  // namespace memmodel
