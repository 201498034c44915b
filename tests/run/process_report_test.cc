#include "src/run/process_report.h"

#include <doctest/doctest.h>

namespace memmodel {
namespace {

TEST_CASE("a report is read with its reads and devices") {
  const auto report =
      ParseProcessReport(R"({"probe": 7, "cuda_used": true, "pid": 7, "outcome": "ok",
    "rank": 1, "world_size": 2, "steps_done": 3, "batch": 16, "ended": "steps", "bucket_bytes": 4096, "torch_version": "2.11.0",
    "peak": {"allocated_bytes": 100, "reserved_bytes": 200},
    "devices": [{"device": 0, "trace": "t0", "trace_complete": true, "peak": {"allocated_bytes": 10}},
                {"device": 1, "trace": "t1", "trace_complete": false, "peak": {"allocated_bytes": 100}}],
    "unknown": [{"operator": "x[mask]", "where": "train.py:3: x[mask]", "positions": {"1": 42}}],
    "harmless_reads": []})");
  REQUIRE(report.ok());
  CHECK(report->rank == 1);
  CHECK(report->bucket_bytes == 4096);
  CHECK(report->answer.peak_reserved == 200);
  REQUIRE(report->device() != nullptr);
  CHECK(report->device()->path == "t1");
  REQUIRE(report->unknown.size() == 1);
  CHECK(report->unknown[0].position.at(1) == 42);
}

TEST_CASE("fields of another type are passed over, other texts refused") {
  const auto report =
      ParseProcessReport(R"({"cuda_used": false, "pid": "x", "error": {"message": "boom"}})");
  REQUIRE(report.ok());
  CHECK(report->pid == 0);
  CHECK(report->answer.error.message == "boom");
  CHECK_FALSE(ParseProcessReport("[1, 2").ok());
  CHECK_FALSE(
      ParseProcessReport(R"({"cuda_used": true, "probe": 1, "outcome": "ok"})").ok());  // no peaks
  CHECK_FALSE(ParseRefusal("").ok());
}

}  // namespace
}  // namespace memmodel
