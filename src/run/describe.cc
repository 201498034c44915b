#include "src/run/describe.h"

#include <string>
#include <string_view>
#include <utility>

#include "memmodel/allocator_settings.h"
#include "memmodel/trace.h"
#include "src/predict/words.h"
#include "src/run/run_kinds.h"

namespace memmodel {
namespace {

// What the devices' figures were measured with.
constexpr std::string_view kMeasuredTorch = "2.11.";

void AddNotes(const RunOptions& options, const ProcessReport& report, const ScriptRun& run,
              RunAnswer* answer) {
  if (report.steps_done == 0) {
    answer->notes.emplace_back("no optimizer step was seen: the figures are of the whole script");
  } else if (options.steps > 0 && report.steps_done < options.steps && !RanOut(run)) {
    answer->notes.push_back("the script ended after " + std::to_string(report.steps_done) + " of " +
                            std::to_string(options.steps) + " steps");
  }
  if (report.answer.ooms > 0 && !RanOut(run)) {
    answer->notes.push_back("the script met " + std::to_string(report.answer.ooms) +
                            " out-of-memory errors and went on");
  }
  if (report.bucket_bytes > 0) {
    answer->notes.push_back("up to " + FormatBytes(report.bucket_bytes) +
                            " more for one step, by chance: DistributedDataParallel makes new "
                            "gradient buckets, and PyTorch's NCCL watchdog lets go of the old ones "
                            "only every 100 ms");
  }
  if (report.world_size > 1) {
    answer->notes.emplace_back(
        "NCCL's own buffers come on top of what nvidia-smi shows for each GPU (about 840 MiB "
        "measured for 2 ranks on an H200); they are not in these figures");
  }
  if (options.device_kind == DeviceKind::kVirtual &&
      !report.torch_version.starts_with(kMeasuredTorch)) {
    answer->notes.push_back(
        "the CUDA context is that of torch 2.11 (CUDA 13.0); what it takes with torch " +
        report.torch_version + " was not measured");
  }
  if (options.device_kind == DeviceKind::kVirtual && report.compiled_functions > 0) {
    answer->notes.emplace_back(
        "torch.compile: what Inductor's code allocates is followed; it has not been compared with "
        "measured runs (--eager predicts the script without compiling)");
  }
  if (options.device_kind == DeviceKind::kVirtual && report.kernel_trials > 0) {
    answer->notes.emplace_back(
        "configurations of Triton kernels were timed: which is the fastest is not known without "
        "the GPU, and memory differs where a kernel's configuration sizes its buffers");
  }
  if (!report.stale_bytes.empty()) {
    answer->notes.push_back(
        "values that decide memory may have been missed: what a block held before it was handed "
        "out anew counts as known, since " +
        report.stale_bytes);
  }
}

Status DescribeTrace(const RunOptions& options, const ProcessReport& report, RunAnswer* answer) {
  const DeviceTrace* device = report.device();
  if (device == nullptr) return {};
  if (!device->complete) {
    if (!options.trace_output.empty()) {
      return Status::Unavailable(
          "no trace to write: the allocator's history is not complete (the script records its own, "
          "or made more requests than are kept)");
    }
    answer->notes.emplace_back(
        "the allocator's history is not complete (the script records its own, or "
        "made more requests than are kept): no breakdown");
    return {};
  }
  Result<Trace> trace = ReadTrace(device->path);
  if (!trace.ok()) return trace.status();
  if (!options.trace_output.empty()) {
    if (Status s = WriteTrace(*trace, options.trace_output, TraceDetail::kFull); !s.ok()) return s;
  }
  const bool known = !report.alloc_conf.empty() && ParseAllocatorSettings(report.alloc_conf).ok();
  Result<MemoryUse> use = Classify(*trace, {known ? report.alloc_conf : options.alloc_conf});
  if (!use.ok()) {
    answer->notes.push_back("no breakdown: " + use.status().message());
    return {};
  }
  answer->prediction.use = *std::move(use);
  return {};
}

}  // namespace

Status Describe(const RunOptions& options, const Runs& runs, const ScriptRun& run,
                RunAnswer* answer) {
  Prediction& prediction = answer->prediction;
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
  DescribeCalls(probe, &prediction);
  answer->steps_done = report.steps_done;
  for (const ProcessReport& one : run.reports) {
    answer->ranks.push_back({one.rank, one.device() == nullptr ? 0 : one.device()->device,
                             one.steps_done, one.batch, runs.PeakOf(one), one.answer.retries,
                             one.answer.ooms});
  }
  prediction.peak = runs.PeakOf(report);
  const ContextEstimate& context = runs.context();
  prediction.context = context.value;
  prediction.interval =
      Interval{prediction.peak->reserved + context.low,
               prediction.peak->reserved + context.high + report.bucket_bytes, context.basis};
  AddNotes(options, report, run, answer);
  return DescribeTrace(options, report, answer);
}

}  // namespace memmodel
