#include "src/explain/trace_batches.h"

#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/predict/prober.h"

namespace memmodel {

Result<std::vector<Trace>> TraceBatches(const PredictOptions& options,
                                        const std::vector<std::int64_t>& batches) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  Result<std::unique_ptr<Child>> child = Child::Start(options.child, options.job);
  if (!child.ok()) return child.status();
  const Result<LoadedModel> loaded = (*child)->WaitLoaded();
  if (!loaded.ok()) return loaded.status();
  Prober prober(options, folder->path(), child->get());
  if (Status status = prober.Run(CardSize::kUnlimited, batches); !status.ok()) return status;
  std::vector<Trace> traces;
  Status first_error;
  for (const std::int64_t batch : batches) {
    const ProbeRun& run = prober.At(CardSize::kUnlimited, batch);
    if (run.answer.outcome != Outcome::kOk) {
      if (first_error.ok()) {
        first_error = Status::Unavailable("batch " + std::to_string(batch) +
                                          " cannot be run: " + run.answer.error.message);
      }
      continue;
    }
    Result<Trace> trace = ReadTrace(run.trace);
    if (!trace.ok()) return trace.status();
    traces.push_back(*std::move(trace));
  }
  if (traces.empty()) return first_error;
  return traces;
}

}  // namespace memmodel
