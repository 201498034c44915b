#include "src/run/runs.h"

#include <algorithm>

#include "memmodel/trace.h"
#include "src/run/judge.h"
#include "src/run/run_kinds.h"

namespace memmodel {
namespace {

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

}  // namespace

Runs::Runs(const RunOptions& options, ScriptTools tools, std::string folder)
    : options_(options),
      tools_(std::move(tools)),
      folder_(std::move(folder)),
      context_(EstimateContext(options.device, {})) {}

ScriptOptions Runs::Script(std::int64_t batch, const Card& card) const {
  ScriptOptions script;
  script.command = WithBatch(options_.command, batch);
  script.device = options_.device_kind;
  script.device_file = options_.device.path;
  script.total_bytes = card.total;
  script.gpus = options_.gpus;
  script.steps = options_.steps;
  script.eager = options_.eager;
  script.answers = card.answers;
  if (card.counts >= 0) script.unknown_count = card.counts;
  script.allocator_limit = card.total > 0 ? options_.allocator_limit : std::nullopt;
  script.alloc_conf = options_.alloc_conf;
  script.triton_cache = folder_ + "/triton";
  script.timeout_s = options_.timeout_s;
  script.interrupt_fd = options_.interrupt_fd;
  script.quiet = !runs_.empty();  // its output was shown once
  return script;
}

Result<const ScriptRun*> Runs::Once(std::int64_t batch, Card card) {
  const Key key(batch, card);
  if (const auto found = runs_.find(key); found != runs_.end()) return &found->second;
  if (batch > 0 && options_.progress) options_.progress("batch " + std::to_string(batch));
  Result<ScriptRun> run =
      RunScript(tools_, Script(batch, card), folder_ + "/" + std::to_string(runs_.size()));
  if (!run.ok()) return run.status();
  if (Status s = Judge(options_, *run); !s.ok()) {
    return batch > 0 ? Status(s.code(), "at batch " + std::to_string(batch) + ": " + s.message())
                     : s;
  }
  const ScriptRun* kept = &runs_.emplace(key, *std::move(run)).first->second;
  LearnContext(*kept);
  const bool asked = card.answers == Answers::kZero && card.counts == Counts();
  if (batch > 0 && asked) probes_.push_back(Probe(batch, card, *kept));
  return kept;
}

BatchProbe Runs::Probe(std::int64_t batch, const Card& card, const ScriptRun& run) const {
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
  probe.peak = PeakOf(Heaviest(run));
  probe.outcome = card.total == 0    ? "measured"
                  : Retries(run) > 0 ? "retries"
                  : Fits(run)        ? "fits"
                                     : "above target";
  return probe;
}

void Runs::LearnContext(const ScriptRun& run) {
  if (context_known_ || run.reports.empty() || RanOut(run)) return;
  const ProcessReport& report = Heaviest(run);
  const DeviceTrace* device = report.device();
  const Result<Trace> trace =
      device == nullptr ? Result<Trace>(Status::Internal("no trace")) : ReadTrace(device->path);
  context_ = ContextOf(options_.device, report.answer, trace.ok() ? &*trace : nullptr);
  context_known_ = true;
}

Peak Runs::PeakOf(const ProcessReport& report) const {
  const Bytes reserved = report.answer.peak_reserved.value_or(0);
  return {report.answer.peak_allocated.value_or(0), reserved, reserved + context_.value};
}

Bytes Runs::MayComeOnTop(const ScriptRun& run) { return Heaviest(run).bucket_bytes; }

bool Runs::Fits(const ScriptRun& run) const {
  return !RanOut(run) && Retries(run) == 0 &&
         PeakOf(Heaviest(run)).device + MayComeOnTop(run) <= TargetBytes();
}

Bytes Runs::TargetBytes() const {
  return static_cast<Bytes>(options_.target * static_cast<double>(options_.total_bytes));
}

}  // namespace memmodel
