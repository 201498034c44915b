#include "src/predict/trace_job.h"

#include <memory>

#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/predict/prober.h"
#include "src/predict/words.h"

namespace memmodel {

Result<TracedJob> TraceJob(const PredictOptions& options,
                           const std::vector<std::int64_t>& batches) {
  for (const std::int64_t batch : batches) {
    PredictOptions one = options;
    one.batch = batch;
    if (one.total_bytes == 0) one.total_bytes = one.device.total_bytes;
    std::string reason;
    if (!IsValid(one, &reason)) return Status::InvalidArgument(reason);
  }
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  Result<std::unique_ptr<Child>> child = Child::Start(options.child, options.job);
  if (!child.ok()) return child.status();
  Result<LoadedModel> loaded = (*child)->WaitLoaded();
  if (!loaded.ok()) return loaded.status();
  TracedJob traced;
  traced.loaded = *std::move(loaded);
  if (traced.loaded.kind == "state_dict") {
    return Status::Unknown(options.job.model +
                           " holds tensors without a program; export the module with "
                           "scripts/export_model.py");
  }
  Prober prober(options, folder->path(), child->get());
  if (Status s = prober.Run(CardSize::kUnlimited, batches); !s.ok()) return s;
  for (const std::int64_t batch : batches) {
    const ProbeRun& run = prober.At(CardSize::kUnlimited, batch);
    if (run.answer.outcome == Outcome::kError) return RunError(options.job.model, run.answer);
    if (run.answer.outcome == Outcome::kOutOfMemory) {
      return Status::BadInput("batch " + std::to_string(batch) +
                              " asks for more memory than any GPU has");
    }
    Result<Trace> trace = ReadTrace(run.trace);
    if (!trace.ok()) return trace.status();
    traced.runs.push_back({batch, *std::move(trace), run.answer});
  }
  return traced;
}

}  // namespace memmodel
