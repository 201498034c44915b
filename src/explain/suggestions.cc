#include "src/explain/suggestions.h"

#include <algorithm>
#include <array>
#include <map>

#include "memmodel/allocator.h"
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

Bytes PeakReserved(const Trace& trace, const AllocatorSettings& settings) {
  DeviceMemory device;
  Allocator::Options options;
  options.settings = settings;
  Allocator allocator(options, &device);
  std::map<std::uint64_t, BlockId> blocks;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kAlloc) {
      blocks[event.address] = allocator.Malloc(event.size, event.stream);
    } else if (event.kind == EventKind::kFree) {
      const auto found = blocks.find(event.address);
      if (found == blocks.end() || found->second == BlockId::kNone) continue;
      allocator.Free(found->second);
      blocks.erase(found);
    }
  }
  return allocator.Statistics().reserved_bytes.all.peak;
}

}  // namespace

std::vector<Variant> VariantsOf(const PredictOptions& options, const Prediction& prediction,
                                std::int64_t batch) {
  std::vector<Variant> variants;
  PredictOptions base = options;
  base.batch = batch;
  base.progress = nullptr;
  const auto add = [&](const std::string& change) -> Variant& {
    variants.push_back({change, base, 1});
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
    Variant& variant = add("two micro-batches of " + std::to_string(batch / 2) +
                           " for each optimizer step (--accumulate 2)");
    variant.options.job.accumulate = 2;
    variant.options.batch = batch / 2;
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

std::vector<Suggestion> RunVariants(const std::vector<Variant>& variants, Bytes device_bytes,
                                    bool largest_batches) {
  std::vector<Suggestion> suggestions;
  for (const Variant& variant : variants) {
    const Result<Prediction> at_batch = Predict(variant.options);
    if (!at_batch.ok() || !at_batch->peak || !at_batch->unknown.empty()) continue;
    Suggestion suggestion;
    suggestion.change = variant.change;
    suggestion.saves = device_bytes - at_batch->peak->device;
    if (largest_batches) {
      PredictOptions search = variant.options;
      search.batch.reset();
      const Result<Prediction> largest = Predict(search);
      if (largest.ok() && largest->largest_batch) {
        suggestion.largest_batch = *largest->largest_batch * variant.batch_factor;
      }
    }
    if (variant.batch_factor > 1 && suggestion.largest_batch) {
      suggestion.note = "the largest batch counts the samples of an optimizer step";
    }
    suggestions.push_back(std::move(suggestion));
  }
  return suggestions;
}

std::optional<Suggestion> SuggestCheckpoints(const Trace& trace, const PredictOptions& options) {
  const std::vector<std::string> blocks = BlocksOf(trace);
  if (blocks.size() < 2 || options.job.mode != Mode::kTrain) return std::nullopt;
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(options.job.alloc_conf);
  if (!settings.ok()) return std::nullopt;
  Suggestion suggestion;
  suggestion.simulated = true;
  suggestion.change = "activation checkpointing of the " + std::to_string(blocks.size()) +
                      " blocks " + blocks.front() + " to " + blocks.back();
  suggestion.saves =
      PeakReserved(trace, *settings) - PeakReserved(WithCheckpoints(trace), *settings);
  suggestion.note = "simulated on the trace; each block's forward runs twice";
  return suggestion;
}

}  // namespace memmodel
