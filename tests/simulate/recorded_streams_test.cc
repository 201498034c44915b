// The simulator against the real allocator: streams recorded on a GPU, under
// every setting that tests/simulate/recorded/ has.
#include <doctest/doctest.h>

#include "bench/recorded_run.h"

namespace memmodel {
namespace {

const std::string kFolder = std::string(MEMMODEL_TEST_DATA) + "/recorded";

TEST_CASE("every recorded stream is reproduced") {
  const std::vector<std::string> runs = bench::RecordedRuns(kFolder);
  CHECK(runs.size() == 32);
  long long requests = 0;
  for (const std::string& run : runs) {
    const std::vector<std::string> differences = bench::Compare(run, &requests);
    CHECK_MESSAGE(differences.empty(), run, ": ", differences.empty() ? "" : differences[0]);
  }
  CHECK(requests > 20000);
}

TEST_CASE("another setting than the recorded one does not pass") {
  for (const char* conf : {"max_split_size_mb:20", "roundup_power2_divisions:4",
                           "expandable_segments:True", "large_segment_size_mb:32"}) {
    const Result<Trace> trace = ReadTrace(kFolder + "/147_lstm_train3_default.trace.gz");
    REQUIRE(trace.ok());
    ReplayOptions options;
    options.segment_addresses = SegmentAddresses::kRecorded;
    CHECK(Replay(*trace, options)->first_difference.empty());
    options.allocator.settings = *ParseAllocatorSettings(conf);
    CHECK_FALSE(Replay(*trace, options)->first_difference.empty());
  }
}

TEST_CASE("a changed address is found") {
  Result<Trace> trace = ReadTrace(kFolder + "/147_lstm_train3_default.trace.gz");
  REQUIRE(trace.ok());
  std::size_t last = 0;
  for (std::size_t i = 0; i < trace->events.size(); ++i) {
    if (trace->events[i].kind == EventKind::kAlloc) last = i;
  }
  trace->events[last].address += std::uint64_t{1} << 45;
  ReplayOptions options;
  options.segment_addresses = SegmentAddresses::kRecorded;
  const Result<ReplayResult> result = Replay(*trace, options);
  REQUIRE(result.ok());
  CHECK(result->differing_addresses == 1);
  CHECK(result->first_difference.starts_with("event " + std::to_string(last)));
}

// Peaks of the recorded run do not hang on addresses here; both rules of
// addresses must then give them.
TEST_CASE("the fast path gives the peaks of the full one") {
  for (const std::string& run : bench::RecordedRuns(kFolder)) {
    const Result<Trace> trace = ReadTrace(run + ".trace.gz");
    std::ifstream file(run + ".json");
    ReplayOptions options = *bench::OptionsOf(nlohmann::json::parse(file));
    options.segment_addresses = SegmentAddresses::kOwn;
    const Result<ReplayResult> full = Replay(*trace, options);
    const ReplayPeaks fast = ReplayRequests(*CompileRequests(*trace), options);
    CHECK(fast.allocated == full->statistics.allocated_bytes.all.peak);
    CHECK(fast.reserved == full->statistics.reserved_bytes.all.peak);
    CHECK(fast.active == full->statistics.active_bytes.all.peak);
    CHECK(fast.requested == full->statistics.requested_bytes.all.peak);
    CHECK(fast.retries == full->statistics.num_alloc_retries);
    CHECK(fast.ooms == full->statistics.num_ooms);
  }
}

}  // namespace
}  // namespace memmodel
