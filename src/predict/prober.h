// Asks the child for batches, some side by side, and remembers the answers.
#ifndef MEMMODEL_SRC_PREDICT_PROBER_H_
#define MEMMODEL_SRC_PREDICT_PROBER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/predict.h"
#include "src/child/child.h"
#include "src/child/protocol.h"

namespace memmodel {

// On a card of its true size, whose context grows as the device file says, or on one without end,
// which shows what a batch would need.
enum class CardSize : std::uint8_t { kTrue, kUnlimited };

struct ProbeRun {
  ProbeAnswer answer;
  std::string trace;  // path; "" if none was written
};

class Prober {
 public:
  // Traces are written to `trace_folder`, their names begin with `trace_prefix`. Of the plans
  // that cudnn.benchmark times the heuristic's first is the fastest, or the one with the
  // largest workspace.
  // `options`, the folder and `child` must outlive the prober.
  Prober(const PredictOptions& options, std::string trace_folder, Child* child,
         std::string trace_prefix = "", bool largest_workspace_fastest = false);

  // Runs those of `batches` that were not run yet on such a card.
  Status Run(CardSize size, const std::vector<std::int64_t>& batches);

  // The run of a batch that Run was called for.
  [[nodiscard]] const ProbeRun& At(CardSize size, std::int64_t batch) const;

  // The run that tells what `batch` needs: on the true card if it went through
  // there without a retry, else on the unlimited one. Null if neither was run.
  [[nodiscard]] const ProbeRun* Need(std::int64_t batch) const;

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::map<std::pair<CardSize, std::int64_t>, ProbeRun>& runs() const {
    return runs_;
  }

 private:
  const PredictOptions& options_;
  std::string trace_folder_;
  std::string trace_prefix_;
  bool largest_workspace_fastest_;
  Child* child_;
  std::size_t count_ = 0;
  std::map<std::pair<CardSize, std::int64_t>, ProbeRun> runs_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_PROBER_H_
