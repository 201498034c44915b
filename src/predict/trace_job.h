// Traces of a job at some batches, for whoever looks at the events themselves.
#ifndef MEMMODEL_SRC_PREDICT_TRACE_JOB_H_
#define MEMMODEL_SRC_PREDICT_TRACE_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "memmodel/predict.h"
#include "memmodel/trace.h"
#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/predict/prober.h"

namespace memmodel {

struct TracedRun {
  std::int64_t batch = 0;
  Trace trace;
  ProbeAnswer answer;
};

// Holds the loaded model, and runs it at whatever batches are asked for on a card
// without end.
class JobTracer {
 public:
  // Errors as for Predict. A file without a program is one.
  static Result<std::unique_ptr<JobTracer>> Start(const PredictOptions& options);
  JobTracer(const JobTracer&) = delete;
  JobTracer& operator=(const JobTracer&) = delete;

  [[nodiscard]] const LoadedModel& loaded() const { return loaded_; }

  // Runs options.steps steps at those of `batches` that were not run before, some
  // side by side.
  Status Run(const std::vector<std::int64_t>& batches);

  // What came of a batch that Run was called for; an error if it asked for more
  // memory than any GPU has, or did not run.
  [[nodiscard]] Result<TracedRun> At(std::int64_t batch) const;

 private:
  JobTracer(const PredictOptions& options, TemporaryFolder folder, std::unique_ptr<Child> child,
            LoadedModel loaded);

  const PredictOptions options_;
  TemporaryFolder folder_;
  std::unique_ptr<Child> child_;
  LoadedModel loaded_;
  Prober prober_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_TRACE_JOB_H_
