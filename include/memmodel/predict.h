// From a job and a GPU to a verdict: does it fit, and the largest batch that
// does. The job's own code is run in a child process (src/child); nothing here
// estimates what can be run.
#ifndef MEMMODEL_PREDICT_H_
#define MEMMODEL_PREDICT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/breakdown.h"
#include "memmodel/bytes.h"
#include "memmodel/child_options.h"
#include "memmodel/device.h"
#include "memmodel/job.h"
#include "memmodel/status.h"
#include "memmodel/trace.h"

namespace memmodel {

struct PredictOptions {
  Job job;
  Device device;          // whose properties decide kernels and workspaces
  Bytes total_bytes = 0;  // the card's memory; 0: the device's
  // Does this batch fit? Unset: which is the largest that does?
  std::optional<std::int64_t> batch;
  // The share of the card that the process may use, as nvidia-smi counts it.
  // 0.8 leaves room for what no prediction sees: evaluation, other processes.
  double target = 0.8;
  // Without `batch`: the batches that are run first, to see how memory grows; their
  // figures are part of the curve. Empty: 8 and 32.
  std::vector<std::int64_t> first_batches;
  bool before_oom = true;  // look for largest_batch_before_oom too
  // A cap on reserved memory alone, as set_per_process_memory_fraction sets it.
  std::optional<Bytes> allocator_limit;
  int steps = 3;  // optimizer steps; the third is like all that follow
  // Where the host reads a count that only a kernel could know: the share of the
  // largest possible one to go on with. Unset: the answer is then unknown.
  std::optional<double> unknown_count;
  int parallel_probes = 2;  // side by side, each about 400 MB of host memory
  ChildOptions child;
  // What the caller assumed because it was not given: the names of the options,
  // and a sentence for each that the user should read.
  std::vector<std::string> assumed;      // "gpu", "optimizer"
  std::vector<std::string> assumptions;  // "optimizer adamw with torch's defaults"
  // Told in a few words what is going on, for a progress line. May be empty.
  std::function<void(const std::string&)> progress;
};

enum class Verdict : std::uint8_t { kUnknown, kFits, kDoesNotFit };
std::string_view Name(Verdict verdict);  // "fits", "does_not_fit", "unknown"

struct Peak {
  Bytes allocated = 0;
  Bytes reserved = 0;
  Bytes device = 0;  // what nvidia-smi shows: reserved and the context
};

struct Interval {
  Bytes low = 0;
  Bytes high = 0;
  std::string basis;  // one sentence
};

struct CurvePoint {
  std::int64_t batch = 0;
  Peak peak;
};

// Something that the host read and no kernel wrote.
struct UnknownValue {
  std::string op;
  std::string module;
};

struct Prediction {
  Verdict verdict = Verdict::kUnknown;
  std::string reason;  // why, in one sentence

  // The job as understood.
  std::string model_kind;  // "torchscript", "exported_program", "state_dict"
  std::vector<InputSpec> inputs;
  std::string loss;
  std::int64_t parameters = 0;
  std::vector<std::string> assumptions;  // what was not given; one sentence each

  // At `batch`: the one that was asked for, else the largest that fits (1 if none does).
  std::optional<std::int64_t> batch;
  std::optional<Peak> peak;  // the highest over the steps
  std::optional<Interval> interval;  // of peak.device
  std::optional<MemoryUse> use;
  std::optional<Bytes> context;  // peak.device - peak.reserved
  std::optional<Trace> trace;    // of the run that these figures are of

  std::optional<std::int64_t> largest_batch;             // fits the target without a retry
  std::optional<std::int64_t> largest_batch_before_oom;  // trains `steps` steps

  std::optional<std::int64_t> retries, ooms, segments;
  std::vector<CurvePoint> curve;  // what was run, by batch
  // What must be there whatever else is: of a file that holds no program.
  std::optional<Bytes> certain_bytes;

  std::string torch_version;
  std::optional<std::int64_t> cudnn_version;
  std::string workspace_basis;        // "calibrated", "deviceless", "mixed"; "" if not known
  std::vector<UnknownValue> unknown;  // what made the answer unknown, or a bound
  std::vector<std::string> refused;   // calls that the virtual GPU refused
  std::vector<std::string> approximate;  // calls that it answered, but not exactly

  struct Timings {
    double start_ms = 0, load_ms = 0, trace_ms = 0, solve_ms = 0, total_ms = 0;
  } timings;
};

// False, with a reason that names option, value and rule, if it cannot be asked.
[[nodiscard]] bool IsValid(const PredictOptions& options, std::string* reason);

// Errors: kInvalidArgument, kBadInput for the user's mistakes; kUnavailable if
// the child died, hung or is missing. A batch that does not fit, or an answer
// that is unknown, is a Prediction.
Result<Prediction> Predict(const PredictOptions& options);

// 0 it fits, 1 it does not fit, 3 unknown.
[[nodiscard]] int ExitCode(const Prediction& prediction);

}  // namespace memmodel

#endif  // MEMMODEL_PREDICT_H_
