#include "src/predict/guess.h"

#include "memmodel/allocator_replay.h"
#include "memmodel/memory_model.h"

namespace memmodel {
namespace {

// The largest b in [0, high) for which `holds`, taken to be monotone; it holds at 0.
template <typename Holds>
std::int64_t Bisect(std::int64_t high, const Holds& holds) {
  std::int64_t low = 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::optional<std::int64_t> GuessLargest(std::span<const Trace> traces, const GuessLimits& limits) {
  Result<AllocatorSettings> settings = ParseAllocatorSettings(limits.alloc_conf);
  ModelOptions model_options;
  model_options.alloc_conf = limits.alloc_conf;
  model_options.curve_batches = 1;  // each batch is asked for once
  Result<MemoryModel> model = MemoryModel::Fit(traces, model_options);
  if (!settings.ok() || !model.ok()) return std::nullopt;

  ReplayOptions replay;
  replay.allocator.settings = *settings;
  replay.allocator.limit_bytes = limits.allocator_limit;
  replay.capacity = limits.capacity;
  const auto peaks = [&](std::int64_t batch) -> std::optional<ReplayPeaks> {
    const Result<RequestStream> stream = CompileRequests(model->Synthesise(batch));
    if (!stream.ok()) return std::nullopt;
    return ReplayRequests(*stream, replay);
  };
  // Above this not even the sum of the live requests fits: no simulation needed.
  const std::int64_t bound = 1 + Bisect(MemoryModel::kLargestBatch, [&](std::int64_t batch) {
                               return model->RequestedPeak(batch) <= limits.capacity;
                             });
  return Bisect(bound, [&](std::int64_t batch) {
    const std::optional<ReplayPeaks> p = peaks(batch);
    return p && p->ooms == 0 && p->retries == 0 && p->reserved <= limits.target_reserved;
  });
}

}  // namespace memmodel
