// The trace that a probe writes.
#include "memmodel/trace.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/step/child.h"

using memmodel::Event;
using memmodel::EventKind;
using memmodel::TensorRole;
using memmodel::testing::Job;
using memmodel::testing::Probe;
using memmodel::testing::RunChild;
using memmodel::testing::TemporaryFile;

TEST_CASE("a trace knows operators, modules and roles") {
  const std::string path = TemporaryFile("trace.txt", "");
  const auto run = RunChild({Job("mobilenet_v2.pt", {{"optimizer", {{"name", "adamw"}}}}),
                             Probe(1, 2, {{"steps", 2}, {"trace", path}})});
  REQUIRE(run.answers.size() == 2);
  REQUIRE(run.answers[1]["outcome"] == "ok");
  const auto trace = memmodel::ReadTrace(path);
  REQUIRE(trace.ok());
  std::map<TensorRole, std::int64_t> bytes;
  std::set<std::string> modules;
  std::vector<std::string> markers;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const Event& event : trace->events) {
    if (event.kind == EventKind::kTag) bytes[event.role] += event.size;
    if (event.kind == EventKind::kMarker) markers.emplace_back(trace->Text(event.text));
    const std::int64_t rounded = (event.size + 511) / 512 * 512;
    if (event.kind == EventKind::kAlloc) live += rounded;
    if (event.kind == EventKind::kFree) live -= rounded;
    peak = std::max(peak, live);
    if (event.kind == EventKind::kAlloc) modules.emplace(trace->ModulePath(event.module));
  }
  // 3,504,872 parameters of 4 bytes (torchvision's documentation); AdamW keeps two
  // tensors of the same size for each, its step counters stay on the CPU.
  CHECK(bytes[TensorRole::kWeight] == 14019488);
  CHECK(bytes[TensorRole::kGradient] == 2 * 14019488);  // of two steps
  CHECK(bytes[TensorRole::kOptimizerState] == 2 * 14019488);
  CHECK(bytes[TensorRole::kInput] > 2 * 3 * 224 * 224 * 4);
  CHECK(modules.contains("features.0.0"));
  CHECK(modules.contains("classifier.1"));
  REQUIRE(markers.size() >= 6);
  CHECK(markers.front() == "load");
  CHECK(markers[1] == "step b=2");
  CHECK(markers[2] == "forward done");
  CHECK(markers.back() == "end");
  // Blocks below 1 MiB are never larger than their rounded request, larger ones may
  // be: the sum of requests is a lower bound of the allocator's own peak.
  CHECK(peak <= run.answers[1]["peak"]["allocated_bytes"].get<std::int64_t>());
}
