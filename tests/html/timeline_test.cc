#include <doctest/doctest.h>

#include "src/report/html_timeline.h"
#include "tests/html/sample_trace.h"

namespace memmodel {
namespace {

Timeline Made(std::size_t most) {
  const Result<Trace> trace = ParseTrace(test::kSampleTrace, "sample");
  REQUIRE(trace.ok());
  Result<Timeline> timeline = MakeTimeline(*trace, "", most);
  REQUIRE(timeline.ok());
  return *std::move(timeline);
}

Bytes Of(const TimelinePoint& point, MemoryKind kind) {
  return point.bytes[static_cast<std::size_t>(kind)];
}

// Sizes rounded up to 512 by hand: weight 4096, input 10240, output 30208,
// workspace 65024, gradient 4096, gradient of the output 20480, state 4096.
TEST_CASE("every request of the step has the bytes of each kind after it") {
  const Timeline timeline = Made(1000);
  CHECK(timeline.step == 0);
  REQUIRE(timeline.points.size() == 10);
  CHECK(timeline.points[0].total() == 4096 + 10240);
  CHECK(timeline.points[2].total() == 4096 + 10240 + 30208 + 65024);
  CHECK(Of(timeline.points[2], MemoryKind::kWorkspace) == 65024);
  CHECK(Of(timeline.points[2], MemoryKind::kActivations) == 30208);
  CHECK(Of(timeline.points[2], MemoryKind::kInputs) == 10240);
  CHECK(Of(timeline.points[2], MemoryKind::kWeights) == 4096);
  CHECK(timeline.points[2].phase == Phase::kForward);
  CHECK(timeline.points[3].total() == 4096 + 10240 + 30208);
  CHECK(Of(timeline.points[4], MemoryKind::kGradients) == 4096);
  CHECK(timeline.points[4].phase == Phase::kBackward);
  CHECK(Of(timeline.points[8], MemoryKind::kOptimizerState) == 4096);
  CHECK(timeline.points[9].total() == 3 * 4096);
  CHECK(timeline.peak == 2);
}

TEST_CASE("a thinned timeline keeps the peak") {
  const Timeline timeline = Made(4);
  CHECK(timeline.points.size() == 4);
  CHECK(timeline.points[timeline.peak].total() == 4096 + 10240 + 30208 + 65024);
}

}  // namespace
}  // namespace memmodel
