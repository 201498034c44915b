#include "src/predict/prober.h"

#include <algorithm>
#include <deque>

namespace memmodel {

Prober::Prober(const PredictOptions& options, std::string trace_folder, Child* child,
               std::string trace_prefix, bool largest_workspace_fastest)
    : options_(options),
      trace_folder_(std::move(trace_folder)),
      trace_prefix_(std::move(trace_prefix)),
      largest_workspace_fastest_(largest_workspace_fastest),
      child_(child) {}

Status Prober::Run(CardSize size, const std::vector<std::int64_t>& batches) {
  std::deque<std::int64_t> waiting;
  for (const std::int64_t batch : batches) {
    if (!runs_.contains({size, batch}) &&
        std::find(waiting.begin(), waiting.end(), batch) == waiting.end()) {
      waiting.push_back(batch);
    }
  }
  const auto most = static_cast<std::size_t>(std::max(1, options_.parallel_probes));
  std::map<int, std::string> traces;
  while (!waiting.empty() || child_->unanswered() > 0) {
    while (!waiting.empty() && child_->unanswered() < most) {
      ProbeRequest probe;
      probe.batch = waiting.front();
      waiting.pop_front();
      probe.steps = options_.steps;
      probe.total_bytes = size == CardSize::kTrue ? options_.total_bytes : 0;
      if (size == CardSize::kTrue) {
        probe.allocator_limit_bytes = options_.allocator_limit.value_or(0);
      }
      probe.largest_workspace_fastest = largest_workspace_fastest_;
      probe.unknown_count = options_.unknown_count;
      probe.trace = trace_folder_ + "/" + trace_prefix_ + std::to_string(count_++) + ".trace";
      if (options_.progress) {
        options_.progress("running " + std::to_string(options_.steps) + " steps at batch " +
                          std::to_string(probe.batch));
      }
      Result<int> id = child_->Ask(probe);
      if (!id.ok()) return id.status();
      traces[*id] = probe.trace;
    }
    Result<ProbeAnswer> answer = child_->WaitAnswer();
    if (!answer.ok()) return answer.status();
    const std::int64_t batch = answer->batch;
    std::string trace = traces[answer->id];
    runs_[{size, batch}] = ProbeRun{*std::move(answer), std::move(trace)};
  }
  return {};
}

const ProbeRun& Prober::At(CardSize size, std::int64_t batch) const {
  return runs_.at({size, batch});
}

const ProbeRun* Prober::Need(std::int64_t batch) const {
  const auto card = runs_.find({CardSize::kTrue, batch});
  if (card != runs_.end() && card->second.answer.outcome == Outcome::kOk &&
      card->second.answer.retries == 0) {
    return &card->second;
  }
  const auto unlimited = runs_.find({CardSize::kUnlimited, batch});
  return unlimited == runs_.end() ? nullptr : &unlimited->second;
}

}  // namespace memmodel
