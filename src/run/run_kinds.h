// What one finished run of a script says in a few words.
#ifndef MEMMODEL_SRC_RUN_RUN_KINDS_H_
#define MEMMODEL_SRC_RUN_RUN_KINDS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "memmodel/bytes.h"
#include "src/run/script.h"

namespace memmodel {

[[nodiscard]] inline bool RanOut(const ScriptRun& run) {
  return std::any_of(run.reports.begin(), run.reports.end(), [](const ProcessReport& report) {
    return report.answer.outcome == Outcome::kOutOfMemory;
  });
}

// Times that an allocator gave cached memory back and tried again, over all ranks.
[[nodiscard]] inline std::int64_t Retries(const ScriptRun& run) {
  std::int64_t retries = 0;
  for (const ProcessReport& report : run.reports) retries += report.answer.retries;
  return retries;
}

// The most of a measure over all ranks.
[[nodiscard]] inline double Most(const ScriptRun& run, std::optional<Bytes> ProbeAnswer::*measure) {
  Bytes most = 0;
  for (const ProcessReport& report : run.reports) {
    most = std::max(most, (report.answer.*measure).value_or(0));
  }
  return static_cast<double>(most);
}

// The process that reserves most. The run used a GPU.
[[nodiscard]] inline const ProcessReport& Heaviest(const ScriptRun& run) {
  return *std::max_element(
      run.reports.begin(), run.reports.end(), [](const ProcessReport& a, const ProcessReport& b) {
        return a.answer.peak_reserved.value_or(0) < b.answer.peak_reserved.value_or(0);
      });
}

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_RUN_KINDS_H_
