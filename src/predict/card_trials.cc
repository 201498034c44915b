#include "src/predict/card_trials.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace memmodel {

CardTrials::CardTrials(const PredictOptions& options, const std::string& trace_folder, Child* child,
                       Prober* first)
    : plans_unknown_(options.job.cudnn_benchmark && options.job.device == DeviceKind::kVirtual),
      first_(first),
      largest_(options, trace_folder, child, "largest-", /*largest_workspace_fastest=*/true) {}

Result<std::vector<Trial>> CardTrials::Try(const std::vector<std::int64_t>& batches,
                                           const Holds& holds) {
  Result<std::vector<Trial>> trials = TryWith(first_, batches, holds);
  if (!trials.ok() || !plans_unknown_) return trials;
  std::vector<std::int64_t> left;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if ((*trials)[i].holds) left.push_back(batches[i]);
  }
  const Result<std::vector<Trial>> others = TryWith(&largest_, left, holds);
  if (!others.ok()) return others.status();
  auto other = others->begin();
  for (Trial& trial : *trials) {
    if (!trial.holds) continue;
    trial.holds = other->holds;
    if (other->measure) trial.measure = std::max(trial.measure.value_or(0), *other->measure);
    ++other;
  }
  return trials;
}

Result<std::int64_t> CardTrials::Climb(const ClimbOptions& options) {
  const Holds runs = [](const ProbeAnswer& answer) { return answer.outcome == Outcome::kOk; };
  const auto climb = [&](Prober* plans) {
    return ClimbToLargest(options, [&](const std::vector<std::int64_t>& batches) {
      return TryWith(plans, batches, runs);
    });
  };
  Result<std::int64_t> largest = climb(first_);
  if (!largest.ok() || !plans_unknown_) return largest;
  const Result<std::int64_t> other = climb(&largest_);
  if (!other.ok()) return other;
  std::int64_t batch = std::min(*largest, *other);
  for (; batch > options.known_true; --batch) {
    const Result<std::vector<Trial>> trial = Try({batch}, runs);
    if (!trial.ok()) return trial.status();
    if (trial->front().holds) break;
  }
  return batch;
}

Result<std::vector<Trial>> CardTrials::TryWith(Prober* plans,
                                               const std::vector<std::int64_t>& batches,
                                               const Holds& holds) {
  if (Status s = plans->Run(CardSize::kTrue, batches); !s.ok()) return s;
  std::vector<Trial> trials;
  for (const std::int64_t batch : batches) {
    const ProbeAnswer& answer = plans->At(CardSize::kTrue, batch).answer;
    Trial trial{holds(answer), std::nullopt};
    if (answer.outcome == Outcome::kOk) {
      trial.measure = static_cast<double>(*answer.peak_reserved);
    }
    if (answer.outcome == Outcome::kError && first_error_.empty()) {
      first_error_ = "batch " + std::to_string(batch) + " cannot be run: " + answer.error.message;
    }
    trials.push_back(trial);
  }
  return trials;
}

Result<ProbeAnswer> CardTrials::NeedOfLargest(std::int64_t batch) {
  for (const CardSize size : {CardSize::kTrue, CardSize::kUnlimited}) {
    if (largest_.Need(batch) != nullptr) break;
    if (Status s = largest_.Run(size, {batch}); !s.ok()) return s;
  }
  return largest_.Need(batch)->answer;
}

}  // namespace memmodel
