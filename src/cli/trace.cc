#include "memmodel/trace.h"

#include <memory>
#include <string>

#include "src/cli/answer.h"
#include "src/cli/job_flags.h"
#include "src/predict/trace_job.h"

namespace memmodel::cli {
namespace {

struct Flags {
  JobFlags job;
  std::int64_t batch = 1;
  std::string output, requests;
};

Result<TracedRun> TraceAt(const PredictOptions& options, std::int64_t batch) {
  const Result<std::unique_ptr<JobTracer>> tracer = JobTracer::Start(options);
  if (!tracer.ok()) return tracer.status();
  if (Status s = (*tracer)->Run({batch}); !s.ok()) return s;
  return (*tracer)->At(batch);
}

void RunTrace(const Flags& flags, Context& context) {
  if (flags.output.empty() && flags.requests.empty()) {
    return context.Fail(Status::InvalidArgument(
        "trace: nothing to write; give --output FILE, or --requests FILE for the bare requests"));
  }
  Result<PredictOptions> options = ReadJobFlags(flags.job);
  if (!options.ok()) return context.Fail(options.status());
  const std::optional<TracedRun> traced =
      RunJob(&*options, context, [&] { return TraceAt(*options, flags.batch); });
  if (!traced) return;
  const TracedRun& run = *traced;
  for (const auto& [path, detail] : {std::pair(flags.output, TraceDetail::kFull),
                                     std::pair(flags.requests, TraceDetail::kRequestsOnly)}) {
    if (path.empty()) continue;
    if (Status s = WriteTrace(run.trace, path, detail); !s.ok()) return context.Fail(s);
  }
  context.Print(std::to_string(run.trace.events.size()) + " events of " +
                std::to_string(options->steps) + " steps at batch " + std::to_string(run.batch) +
                ": " + FormatBytes(*run.answer.peak_allocated) + " allocated, " +
                FormatBytes(*run.answer.peak_reserved) + " reserved at the peak\n");
}

}  // namespace

void AddTrace(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("trace", "write the memory events of some training steps to a file");
  command->footer(
      "Example: memmodel trace --model resnet50.pt --gpu h200 --batch 16 --output resnet50.trace\n"
      "docs/trace_format.md describes the file; memmodel simulate and diff read it.");
  const auto flags = std::make_shared<Flags>();
  AddJobFlags(command, &flags->job);
  command->add_option("--batch", flags->batch, "samples in a batch")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--output", flags->output, "every event, with operator, module and phase")
      ->type_name("FILE");
  command->add_option("--requests", flags->requests, "the allocator's requests and markers alone")
      ->type_name("FILE");
  command->callback([flags, &context] { RunTrace(*flags, context); });
}

}  // namespace memmodel::cli
