// The bytes of each kind after every request of one step.
#ifndef MEMMODEL_SRC_REPORT_HTML_TIMELINE_H_
#define MEMMODEL_SRC_REPORT_HTML_TIMELINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "memmodel/breakdown.h"
#include "memmodel/trace.h"

namespace memmodel {

struct TimelinePoint {
  std::uint32_t event = 0;  // index into the trace
  Phase phase = Phase::kNone;
  std::array<Bytes, kMemoryKinds> bytes{};  // after the event
  [[nodiscard]] Bytes total() const;
};

struct Timeline {
  int step = 0;  // 0: the first
  std::vector<TimelinePoint> points;
  std::size_t peak = 0;  // index into points
};

// The step in which allocated memory is highest, the first if several are equal.
// Of more than `most` points, each run of neighbours is represented by its highest.
Result<Timeline> MakeTimeline(const Trace& trace, const std::string& alloc_conf, std::size_t most);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_HTML_TIMELINE_H_
