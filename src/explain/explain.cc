#include "src/explain/explain.h"

#include <algorithm>
#include <set>

#include "src/explain/suggestions.h"
#include "src/explain/trace_batches.h"

namespace memmodel {
namespace {

// The batch itself, its halves down to an eighth, and 1: enough to see what grows
// how, and where plans change.
std::vector<std::int64_t> BatchesFor(std::int64_t batch) {
  std::set<std::int64_t> batches = {1, 2, batch};
  for (const std::int64_t part : {2, 4, 8}) {
    if (batch / part > 1) batches.insert(batch / part);
  }
  return {batches.begin(), batches.end()};
}

std::optional<std::size_t> Find(const std::vector<Trace>& traces, std::int64_t batch) {
  const std::string text = std::string(marker::kStepPrefix) + std::to_string(batch);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (std::find(traces[i].texts.begin(), traces[i].texts.end(), text) != traces[i].texts.end()) {
      return i;
    }
  }
  return std::nullopt;
}

// What a prediction at one batch lacks: the curve, and how layers grow.
void AddFromModel(const MemoryModel& model, Prediction* prediction) {
  for (const std::int64_t batch : model.traced_batches()) {
    const bool known = std::any_of(prediction->curve.begin(), prediction->curve.end(),
                                   [&](const CurvePoint& p) { return p.batch == batch; });
    const Result<BatchMemory> memory = model.At(batch);
    if (known || !memory.ok() || !memory->device) continue;
    prediction->curve.push_back({batch, {memory->allocated, memory->reserved, *memory->device}});
  }
  std::sort(prediction->curve.begin(), prediction->curve.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.batch < b.batch; });
  for (LayerMemory& layer : prediction->use->layers) {
    for (const LayerModel& fitted : model.layers()) {
      if (fitted.path != layer.path || layer.activation_bytes_per_sample) continue;
      layer.activation_bytes_per_sample = static_cast<double>(fitted.activations.beta);
    }
  }
}

}  // namespace

Result<Explanation> Explain(const ExplainOptions& options) {
  Explanation explanation;
  Result<Prediction> prediction = Predict(options.predict);
  if (!prediction.ok()) return prediction.status();
  if (!prediction->peak || !prediction->use || !prediction->batch) {
    return Status::Unknown("there is nothing to explain: " + prediction->reason);
  }
  if (!prediction->unknown.empty()) return Status::Unknown(prediction->reason);
  explanation.batch = *prediction->batch;
  Result<std::vector<Trace>> traces = TraceBatches(options.predict, BatchesFor(explanation.batch));
  if (!traces.ok()) return traces.status();
  const std::optional<std::size_t> at = Find(*traces, explanation.batch);
  if (!at) {
    return Status::Unavailable("batch " + std::to_string(explanation.batch) + " left no trace");
  }
  ModelOptions model_options;
  model_options.alloc_conf = options.predict.job.alloc_conf;
  model_options.curve_batches = 0;
  model_options.context_bytes = prediction->context;
  const Result<MemoryModel> model = MemoryModel::Fit(*traces, model_options);
  if (!model.ok()) return model.status();
  AddFromModel(*model, &*prediction);
  explanation.groups = GroupsOf(*model, explanation.batch);
  explanation.sentences = ExplainInWords(*model, *prediction, explanation.batch);
  if (options.suggest) {
    explanation.suggestions =
        RunVariants(VariantsOf(options.predict, *prediction, explanation.batch),
                    prediction->peak->device, options.largest_batches);
    if (auto checkpoints = SuggestCheckpoints((*traces)[*at], options.predict)) {
      explanation.suggestions.push_back(*std::move(checkpoints));
    }
    std::stable_sort(explanation.suggestions.begin(), explanation.suggestions.end(),
                     [](const Suggestion& a, const Suggestion& b) { return a.saves > b.saves; });
  }
  explanation.prediction = *std::move(prediction);
  explanation.trace = std::move((*traces)[*at]);
  return explanation;
}

}  // namespace memmodel
