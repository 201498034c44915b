// The runs of one question: each combination of batch and card is run once.
#ifndef MEMMODEL_SRC_RUN_RUNS_H_
#define MEMMODEL_SRC_RUN_RUNS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/run.h"
#include "src/predict/context.h"
#include "src/run/script.h"

namespace memmodel {

inline constexpr std::string_view kBatchPlace = "{batch}";

// What a run of the script meets.
struct Card {
  Bytes total = 0;  // 0: without end
  Answers answers = Answers::kZero;
  double counts = -1;  // share of the largest count that unknown counts are; -1: unknown
  auto operator<=>(const Card&) const = default;
};

class Runs {
 public:
  // `folder` outlives this.
  Runs(const RunOptions& options, ScriptTools tools, std::string folder);

  // Runs the script with this batch on such a card, if it was not run yet. The run
  // used a GPU, or this is a Status. Batch 0: the command has no place for one.
  Result<const ScriptRun*> Once(std::int64_t batch, Card card);

  // A card of true size, and one without end, that answer counts as the user asked.
  [[nodiscard]] Card TrueSize() const { return {options_.total_bytes, Answers::kZero, Counts()}; }
  [[nodiscard]] Card WithoutEnd() const { return {0, Answers::kZero, Counts()}; }

  using Key = std::pair<std::int64_t, Card>;
  [[nodiscard]] const std::map<Key, ScriptRun>& all() const { return runs_; }
  [[nodiscard]] const std::vector<BatchProbe>& probes() const { return probes_; }

  // The run at this batch turned out to be one of another.
  void Disown(std::int64_t batch) {
    std::erase_if(probes_, [batch](const BatchProbe& probe) { return probe.batch == batch; });
  }

  // Estimated until a run has shown which libraries the script uses.
  [[nodiscard]] const ContextEstimate& context() const { return context_; }
  [[nodiscard]] Peak PeakOf(const ProcessReport& report) const;
  // What may come on top: DistributedDataParallel makes new gradient buckets after its first
  // steps, and NCCL's watchdog, which wakes every 100 ms, may not have let go of the old ones.
  [[nodiscard]] static Bytes MayComeOnTop(const ScriptRun& run);
  // Within the target, and without giving cached memory back on the way.
  [[nodiscard]] bool Fits(const ScriptRun& run) const;
  [[nodiscard]] Bytes TargetBytes() const;

 private:
  [[nodiscard]] double Counts() const { return options_.unknown_count.value_or(-1); }
  [[nodiscard]] ScriptOptions Script(std::int64_t batch, const Card& card) const;
  [[nodiscard]] BatchProbe Probe(std::int64_t batch, const Card& card, const ScriptRun& run) const;
  void LearnContext(const ScriptRun& run);

  const RunOptions& options_;
  ScriptTools tools_;
  std::string folder_;
  ContextEstimate context_;
  bool context_known_ = false;
  std::map<Key, ScriptRun> runs_;
  std::vector<BatchProbe> probes_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_RUNS_H_
