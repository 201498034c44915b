// One self-contained page: memory over the step, peak against batch, layers.
#ifndef MEMMODEL_SRC_REPORT_HTML_H_
#define MEMMODEL_SRC_REPORT_HTML_H_

#include <string>
#include <vector>

#include "memmodel/predict.h"
#include "memmodel/trace.h"

namespace memmodel {

// What `explain` adds to a prediction.
struct HtmlExplanation {
  std::vector<std::string> sentences;
  struct Suggestion {
    std::string change;
    Bytes saves = 0;
    std::optional<std::int64_t> largest_batch;
    bool simulated = false;
  };
  std::vector<Suggestion> suggestions;
};

// The page of data/html, filled in. `trace` is of the job at the prediction's
// batch and has segments. Fails if that folder is missing or the trace contradicts
// itself.
Result<std::string> FormatHtml(const PredictOptions& options, const Prediction& prediction,
                               const Trace& trace, const HtmlExplanation& explanation = {});

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_HTML_H_
