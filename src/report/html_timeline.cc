#include "src/report/html_timeline.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "src/classify/lives.h"

namespace memmodel {
namespace {

// Keeps the highest point of each of `most` runs of neighbours.
void Thin(Timeline* timeline, std::size_t most) {
  std::vector<TimelinePoint>& points = timeline->points;
  const std::size_t all = points.size();
  if (all <= most || most == 0) return;
  std::vector<TimelinePoint> kept;
  for (std::size_t run = 0; run < most; ++run) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(run * all / most);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((run + 1) * all / most);
    kept.push_back(*std::max_element(
        begin, end, [](const auto& a, const auto& b) { return a.total() < b.total(); }));
  }
  points = std::move(kept);
}

}  // namespace

Bytes TimelinePoint::total() const { return std::accumulate(bytes.begin(), bytes.end(), Bytes{0}); }

Result<Timeline> MakeTimeline(const Trace& trace, const std::string& alloc_conf, std::size_t most) {
  const Result<History> history = FollowBlocks(trace, {.alloc_conf = alloc_conf});
  if (!history.ok()) return history.status();
  std::unordered_map<std::uint32_t, std::pair<const Life*, int>> changes;  // event -> sign
  Timeline timeline;
  for (const Life& life : history->lives) {
    changes[life.made] = {&life, 1};
    if (life.freed != Life::kNever) changes[life.freed] = {&life, -1};
    if (life.made == history->peak_event) timeline.step = std::max<int>(life.step, 0);
  }
  TimelinePoint now;
  int step = -1;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.kind == EventKind::kMarker) {
      const std::string_view text = trace.Text(event.text);
      step += text.starts_with(marker::kStepPrefix) ? 1 : 0;
      now.phase = PhaseAfter(text, now.phase);
      continue;
    }
    const auto change = changes.find(i);
    if (change == changes.end()) continue;
    const auto& [life, sign] = change->second;
    now.bytes[static_cast<std::size_t>(KindOf(*life))] += sign * life->bytes;
    now.event = i;
    if (step == timeline.step) timeline.points.push_back(now);
  }
  Thin(&timeline, most);
  const auto peak = std::max_element(
      timeline.points.begin(), timeline.points.end(),
      [](const TimelinePoint& a, const TimelinePoint& b) { return a.total() < b.total(); });
  timeline.peak = static_cast<std::size_t>(peak - timeline.points.begin());
  return timeline;
}

}  // namespace memmodel
