#include "src/diff/items.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace memmodel {
namespace {

constexpr std::uint64_t kRelease = std::uint64_t{1} << 62;
constexpr std::uint64_t kText = std::uint64_t{1} << 63;

}  // namespace

DiffItems ItemsOf(const Trace& trace, Bytes rounding) {
  DiffItems all;
  all.released_at.assign(trace.events.size(), -1);
  all.parts.push_back({.name = "load"});
  std::unordered_map<std::uint64_t, std::int64_t> live;  // address -> allocating event
  Bytes sum = 0;
  Phase phase = Phase::kNone;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const auto index = static_cast<std::int64_t>(i);
    if (event.kind == EventKind::kMarker) {
      const std::string_view text = trace.Text(event.text);
      phase = PhaseAfter(text, phase);
      if (text.starts_with(marker::kStepPrefix)) {
        const std::string batch(text.substr(marker::kStepPrefix.size()));
        all.parts.push_back(
            {.name = "step " + std::to_string(all.parts.size()) + " (b=" + batch + ")",
             .peak = sum});
      }
      if (text == marker::kLoad || text == marker::kEnd) continue;  // one side may lack them
      all.parts.back().items.push_back({index, -1, phase});
      all.parts.back().tokens.push_back(std::hash<std::string_view>{}(text) | kText);
      continue;
    }
    DiffItems::Part& part = all.parts.back();
    const auto rounded = static_cast<std::uint64_t>(RoundToMultiple(event.size, rounding));
    if (event.kind == EventKind::kAlloc) {
      live[event.address] = index;
      sum += static_cast<Bytes>(rounded);
      part.peak = std::max(part.peak, sum);
      ++part.requests;
      part.items.push_back({index, index, phase});
      part.tokens.push_back(rounded);
    } else if (event.kind == EventKind::kFree) {
      std::int64_t block = -1;
      if (const auto found = live.find(event.address); found != live.end()) {
        block = found->second;
        live.erase(found);
        all.released_at[static_cast<std::size_t>(block)] = index;
        sum -= static_cast<Bytes>(rounded);
      }
      part.items.push_back({index, block, phase});
      part.tokens.push_back(rounded | kRelease);
    }
  }
  return all;
}

}  // namespace memmodel
