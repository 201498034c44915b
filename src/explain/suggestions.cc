#include "src/explain/suggestions.h"

#include <algorithm>
#include <array>

#include "memmodel/allocator_replay.h"
#include "src/explain/checkpoint.h"

namespace memmodel {
namespace {

constexpr std::array<std::string_view, 4> kFusable = {"adam", "adamw", "sgd", "adagrad"};

bool IsFused(const OptimizerSpec& optimizer) {
  return std::any_of(optimizer.options.begin(), optimizer.options.end(), [](const auto& option) {
    return option.first == "fused" && option.second != "false" && option.second != "False";
  });
}

// Images of three quarters of the side, in multiples of 32; other inputs: half of
// a token sequence. Empty if there is nothing to make smaller.
std::vector<InputSpec> Smaller(std::vector<InputSpec> inputs, std::string* what) {
  for (InputSpec& input : inputs) {
    const std::size_t dims = input.shape.size();
    if (dims == 3 && input.shape[1] == input.shape[2] && input.shape[1] >= 64) {
      const std::int64_t side = std::max<std::int64_t>(32, input.shape[1] * 3 / 4 / 32 * 32);
      *what = "images of " + std::to_string(side) + " x " + std::to_string(side) + " in place of " +
              std::to_string(input.shape[1]);
      input.shape[1] = input.shape[2] = side;
      return inputs;
    }
    if (dims == 1 && input.dtype == "int64" && input.shape[0] >= 64) {
      *what = std::to_string(input.shape[0] / 2) + " tokens in place of " +
              std::to_string(input.shape[0]);
      input.shape[0] /= 2;
      return inputs;
    }
  }
  return {};
}

std::optional<ReplayPeaks> Simulate(const Trace& trace, const ReplayOptions& options) {
  const Result<RequestStream> stream = CompileRequests(trace);
  if (!stream.ok()) return std::nullopt;
  return ReplayRequests(*stream, options);
}

}  // namespace

std::vector<Variant> VariantsOf(const PredictOptions& options, const Prediction& prediction,
                                std::int64_t batch) {
  std::vector<Variant> variants;
  const auto add = [&](const std::string& change) -> Variant& {
    variants.push_back({change, options, batch, 1});
    return variants.back();
  };
  if (options.job.precision == Precision::kFp32) {
    add("bf16 autocast (--precision amp-bf16)").options.job.precision = Precision::kAmpBf16;
  }
  const bool trains = options.job.mode == Mode::kTrain;
  const OptimizerSpec& optimizer = options.job.optimizer;
  if (trains && !IsFused(optimizer) &&
      std::find(kFusable.begin(), kFusable.end(), optimizer.name) != kFusable.end()) {
    Variant& variant = add("the fused optimizer (--optimizer " + optimizer.name + ":fused=true)");
    auto& list = variant.options.job.optimizer.options;
    std::erase_if(list, [](const auto& o) { return o.first == "foreach" || o.first == "fused"; });
    list.emplace_back("fused", "true");
  }
  if (trains && batch >= 2 && options.job.accumulate == 1) {
    const std::int64_t half = (batch + 1) / 2;  // not fewer samples than now
    Variant& variant = add("two micro-batches of " + std::to_string(half) +
                           " for each optimizer step (--accumulate 2)");
    variant.options.job.accumulate = 2;
    variant.batch = half;
    variant.batch_factor = 2;
  }
  if (options.job.alloc_conf.find("expandable_segments") == std::string::npos) {
    std::string& conf =
        add("expandable segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)")
            .options.job.alloc_conf;
    conf += conf.empty() ? "expandable_segments:True" : ",expandable_segments:True";
  }
  std::string what;
  if (std::vector<InputSpec> inputs = Smaller(prediction.inputs, &what); !inputs.empty()) {
    add(what + " (--input " + FormatInputSpec(inputs.front()) + ")").options.job.inputs =
        std::move(inputs);
  }
  return variants;
}

std::vector<Suggestion> RunVariants(const std::vector<Variant>& variants, Bytes device_bytes) {
  std::vector<Suggestion> suggestions;
  for (const Variant& variant : variants) {
    const std::int64_t batch = variant.batch;
    PredictOptions options = variant.options;
    options.batch.reset();
    options.before_oom = false;
    options.first_batches = {std::max<std::int64_t>(1, batch / 2)};
    if (batch > 1) options.first_batches.push_back(batch);
    if (options.progress) {
      options.progress = [&](const std::string& doing) {
        variant.options.progress(variant.change + ": " + doing);
      };
    }
    const Result<Prediction> answer = Predict(options);
    Suggestion suggestion;
    suggestion.change = variant.change;
    const std::vector<CurvePoint> none;
    const std::vector<CurvePoint>& curve = answer.ok() ? answer->curve : none;
    const auto point = std::find_if(curve.begin(), curve.end(),
                                    [&](const CurvePoint& p) { return p.batch == batch; });
    if (point == curve.end()) {
      suggestion.failure = answer.ok() ? answer->reason : answer.status().message();
      suggestions.push_back(std::move(suggestion));
      continue;
    }
    suggestion.saves = device_bytes - point->peak.device;
    if (answer->largest_batch) {
      suggestion.largest_batch = *answer->largest_batch * variant.batch_factor;
    }
    if (variant.batch_factor > 1 && suggestion.largest_batch) {
      suggestion.note = "the largest batch counts the samples of an optimizer step";
    }
    suggestions.push_back(std::move(suggestion));
  }
  return suggestions;
}

std::optional<Suggestion> SuggestCheckpoints(const MemoryModel& model, const Trace& trace,
                                             const PredictOptions& options, Bytes context) {
  const std::vector<std::string> blocks = BlocksOf(trace);
  if (blocks.size() < 2 || options.job.mode != Mode::kTrain) return std::nullopt;
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(options.job.alloc_conf);
  if (!settings.ok()) return std::nullopt;
  ReplayOptions replay;
  replay.allocator.settings = *settings;
  const std::optional<ReplayPeaks> now = Simulate(trace, replay);
  const std::optional<ReplayPeaks> then = Simulate(WithCheckpoints(trace), replay);
  if (!now || !then) return std::nullopt;
  Suggestion suggestion;
  suggestion.simulated = true;
  suggestion.change = "activation checkpointing of the " + std::to_string(blocks.size()) +
                      " blocks " + blocks.front() + " to " + blocks.back();
  suggestion.saves = now->reserved - then->reserved;
  suggestion.note = "simulated on the trace; each block's forward runs twice";
  const Bytes room =
      static_cast<Bytes>(options.target * static_cast<double>(options.total_bytes)) - context;
  const auto fits = [&](std::int64_t batch) {
    const auto peaks = Simulate(WithCheckpoints(model.Synthesise(batch)), replay);
    return peaks && peaks->reserved <= room;
  };
  std::int64_t low = 0, high = 1;
  while (high < MemoryModel::kLargestBatch && fits(high)) low = high, high *= 2;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  if (high < MemoryModel::kLargestBatch) suggestion.largest_batch = low;
  return suggestion;
}

}  // namespace memmodel
