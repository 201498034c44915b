#include "src/explain/explain.h"

#include <algorithm>
#include <set>

#include "src/explain/suggestions.h"
#include "src/predict/trace_job.h"

namespace memmodel {
namespace {

// The batch itself (last), its halves down to an eighth, and 1: enough to see what
// grows how, and where plans change.
std::vector<std::int64_t> BatchesFor(std::int64_t batch) {
  std::set<std::int64_t> batches = {1, 2, batch};
  for (const std::int64_t part : {2, 4, 8}) {
    if (batch / part > 1) batches.insert(batch / part);
  }
  return {batches.begin(), batches.end()};
}

// The traces of those batches that run: some networks refuse a batch of 1.
Result<std::vector<Trace>> TraceBatches(const PredictOptions& options, std::int64_t batch) {
  const Result<std::unique_ptr<JobTracer>> tracer = JobTracer::Start(options);
  if (!tracer.ok()) return tracer.status();
  const std::vector<std::int64_t> batches = BatchesFor(batch);
  if (Status status = (*tracer)->Run(batches); !status.ok()) return status;
  std::vector<Trace> traces;
  for (const std::int64_t b : batches) {
    Result<TracedRun> run = (*tracer)->At(b);
    if (run.ok()) traces.push_back(std::move(run->trace));
    if (!run.ok() && b == batch) return run.status();
  }
  return traces;
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
  Result<std::vector<Trace>> traces = TraceBatches(options.predict, explanation.batch);
  if (!traces.ok()) return traces.status();
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
    explanation.suggestions = RunVariants(
        VariantsOf(options.predict, *prediction, explanation.batch), prediction->peak->device);
    if (auto checkpoints =
            SuggestCheckpoints(*model, traces->back(), options.predict, *prediction->context)) {
      explanation.suggestions.push_back(*std::move(checkpoints));
    }
    std::stable_sort(explanation.suggestions.begin(), explanation.suggestions.end(),
                     [](const Suggestion& a, const Suggestion& b) {
                       if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
                       return a.saves > b.saves;
                     });
  }
  explanation.prediction = *std::move(prediction);
  explanation.trace = std::move(traces->back());
  return explanation;
}

}  // namespace memmodel
