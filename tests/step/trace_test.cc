// The trace that a probe writes.
#include "memmodel/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "memmodel/allocator_replay.h"
#include "tests/step/child.h"

using memmodel::Event;
using memmodel::EventKind;
using memmodel::TensorRole;
using memmodel::testing::EventText;
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

// The simulator, fed with a run's requests and occasions, has no other source of
// addresses than the virtual GPU has: every segment must lie where the run's does, as far
// from the others, and its peaks must be those that the run's own allocator counted.
TEST_CASE("the simulator places segments as the virtual GPU did and finds the run's peaks") {
  const struct {
    const char* model;
    int batch;
  } kCases[] = {{"resnet50.pt", 4}, {"mobilenet_v2.pt", 7}};
  for (const auto& c : kCases) {
    CAPTURE(c.model);
    const std::string path = TemporaryFile("segments.txt", "");
    const auto run = RunChild({Job(c.model, {{"optimizer", {{"name", "adamw"}}}}),
                               Probe(1, c.batch, {{"steps", 3}, {"trace", path}})});
    REQUIRE(run.answers.size() == 2);
    REQUIRE(run.answers[1]["outcome"] == "ok");
    const auto trace = memmodel::ReadTrace(path);
    REQUIRE(trace.ok());
    std::vector<Event> simulated;
    const auto replay = memmodel::Replay(*trace, memmodel::ReplayOptions(), &simulated);
    REQUIRE(replay.ok());
    const auto segments = [](const std::vector<Event>& events) {
      std::vector<std::pair<memmodel::Bytes, std::uint64_t>> found;  // size, above the first
      std::uint64_t first = 0;
      for (const Event& event : events) {
        if (event.kind != EventKind::kSegmentAlloc) continue;
        if (found.empty()) first = event.address;
        found.emplace_back(event.size, event.address - first);
      }
      return found;
    };
    CHECK(segments(trace->events).size() > 20);
    CHECK(segments(simulated) == segments(trace->events));
    const auto& peak = run.answers[1]["peak"];
    CHECK(replay->statistics.allocated_bytes.all.peak == peak["allocated_bytes"]);
    CHECK(replay->statistics.reserved_bytes.all.peak == peak["reserved_bytes"]);
    // One kernel is the first; torch takes a handle of cuDNN and, for the last layer, of
    // cuBLAS for each thread that computes: the program's own and autograd's.
    std::map<memmodel::ContextOccasion, int> occasions;
    for (const Event& event : trace->events) {
      if (event.kind == EventKind::kContext) ++occasions[event.occasion];
    }
    CHECK(occasions[memmodel::ContextOccasion::kFirstKernel] == 1);
    CHECK(occasions[memmodel::ContextOccasion::kCublasHandle] == 2);
    CHECK(occasions[memmodel::ContextOccasion::kCudnnHandle] == 2);
  }
}

// torch's Conv_v8.cpp: where a convolution is new, the largest workspace of all plans is
// allocated, with which they are timed; the fastest is then executed with a workspace of its
// own, here and in each later step. Of convolutions of other sizes the plan is kept too.
TEST_CASE("with cudnn.benchmark the fastest plan is the heuristic's first, or the largest") {
  std::map<std::string, std::vector<memmodel::Bytes>> workspaces[2];  // by module
  for (const bool largest : {false, true}) {
    const std::string path = TemporaryFile("fastest.txt", "");
    const auto run = RunChild(
        {Job("resnet50.pt", {{"cudnn_benchmark", true}}),
         Probe(1, 2, {{"steps", 2}, {"trace", path}, {"largest_workspace_fastest", largest}})});
    REQUIRE(run.answers.size() == 2);
    REQUIRE(run.answers[1]["outcome"] == "ok");
    const auto trace = memmodel::ReadTrace(path);
    REQUIRE(trace.ok());
    std::map<std::uint64_t, const Event*> live;
    for (const Event& event : trace->events) {
      if (event.kind == EventKind::kAlloc) live[event.address] = &event;
      if (event.kind != EventKind::kFree || !live.contains(event.address)) continue;
      const Event& request = *live[event.address];
      if (event.op == request.op && trace->OperatorName(event.op) == "aten::cudnn_convolution") {
        workspaces[largest][std::string(trace->ModulePath(event.module))].push_back(request.size);
      }
    }
  }
  // conv1 is timed, executed, and executed once more in the second step.
  const std::vector<memmodel::Bytes>& first = workspaces[0]["conv1"];
  const std::vector<memmodel::Bytes>& second = workspaces[1]["conv1"];
  REQUIRE(first.size() == 3);
  REQUIRE(second.size() == 3);
  CHECK(first[0] == second[0]);
  CHECK(first[1] < first[0]);
  CHECK(first[2] == first[1]);
  CHECK(second[1] == second[0]);
  CHECK(second[2] == second[0]);
  int larger = 0;
  for (const auto& [module, sizes] : workspaces[1]) {
    const std::vector<memmodel::Bytes>& heuristic = workspaces[0][module];
    if (sizes.size() != 3) continue;  // not timed: as one before it
    CAPTURE(module);
    // Without a workspace a plan requests none.
    const memmodel::Bytes kept = heuristic.size() == 3 ? heuristic[2] : 0;
    CHECK(sizes[2] >= kept);
    CHECK(sizes[2] <= sizes[0]);
    larger += sizes[2] > kept ? 1 : 0;
  }
  CHECK(larger > 10);
}

// Its 53 convolutions run forward and backward, the first without a gradient of its input.
// With cudnn.benchmark the plan is whichever was fastest, and no key says which.
TEST_CASE("a trace says what cuDNN convolved, where the plan is the heuristic's") {
  for (const bool benchmark : {false, true}) {
    CAPTURE(benchmark);
    const std::string path = TemporaryFile("convolutions.txt", "");
    const auto run = RunChild({Job("resnet50.pt", {{"cudnn_benchmark", benchmark}}),
                               Probe(1, 2, {{"steps", 1}, {"trace", path}})});
    REQUIRE(run.answers.size() == 2);
    REQUIRE(run.answers[1]["outcome"] == "ok");
    const auto trace = memmodel::ReadTrace(path);
    REQUIRE(trace.ok());
    REQUIRE(trace->convolutions.size() == (benchmark ? 0 : 3 * 53 - 1));
    if (benchmark) continue;
    CHECK(trace->convolutions[0].key == "fwd f32 2 3 224 224 64 7 7 3 3 2 2 1 1 1 0");
    CHECK(trace->ModulePath(trace->convolutions[0].module) == "conv1");
    for (const auto& call : trace->convolutions) {
      if (call.workspace == 0) continue;
      const Event& before = trace->events[call.position - 1];
      CHECK(before.kind == EventKind::kAlloc);
      CHECK(before.address == call.workspace);
      CHECK(trace->events[call.position].kind == EventKind::kFree);
    }
  }
}

// The requests and releases of an inference step at batch 16 up to the end of forward, in units
// of 512 bytes; the first is the input.
std::string ForwardEvents(const std::string& model, const std::string& precision) {
  const std::string path = TemporaryFile("forward.trace", "");
  const auto run = RunChild({Job(MEMMODEL_SOURCE_DIR "/tests/step/data/" + model,
                                 {{"mode", "infer"}, {"precision", precision}}),
                             Probe(1, 16, {{"steps", 1}, {"trace", path}})});
  REQUIRE(run.answers.size() == 2);
  REQUIRE(run.answers[1]["outcome"] == "ok");
  const auto trace = memmodel::ReadTrace(path);
  REQUIRE(trace.ok());
  std::string events;
  for (const Event& event : trace->events) {
    if (event.kind == EventKind::kMarker) {
      const auto text = trace->Text(event.text);
      if (text == "forward done") break;
      events.clear();
    }
    if (const std::string text = EventText(event); !text.empty()) events += " " + text;
  }
  return events;
}

TEST_CASE("values live as long as the variables of a script's functions") {
  // make_data.py has the network. 16 samples of 256 floats are 32 units of 512 bytes. Python lets
  // go of wide and wider when halved returns, of the first z when the second is assigned and of y
  // when forward returns.
  CHECK(ForwardEvents("variables_net.pt", "fp32") == " a32 a32 a32 a16 f32 f32 a16 a16 f16 f16");
}

TEST_CASE("values live as long as the objects that hold them") {
  // y, twice the input, is held by an object until forward has returned; `out` in the data type
  // of the run by its variable, the float copy of it until widened returns, if it is one.
  CHECK(ForwardEvents("objects_net.pt", "fp32") == " a32 a32 a16 a16 f16 f32");
  CHECK(ForwardEvents("objects_net.pt", "bf16") == " a16 a16 a8 a16 a16 f16 f8 f16");
}

TEST_CASE("values live as long as the tuples that hold them") {
  // x + 1 and x * 2 until the tuple goes, after their halves were added; y until the end.
  CHECK(ForwardEvents("containers_net.pt", "fp32") == " a32 a32 a32 a16 f32 f32 a16 f16");
}

TEST_CASE("steps make the requests and releases that were measured on a GPU") {
  // Every event from loading the parameters to the end of the third step, in units of 512
  // bytes, in order: plain PyTorch 2.11 in Python on an NVIDIA H200 (driver 580.159, batch
  // 16, input and target made in each step, the output dropped with forward).
  std::ifstream file(MEMMODEL_SOURCE_DIR "/tests/step/data/h200_streams.txt");
  REQUIRE(file);
  int streams = 0;
  for (std::string line; std::getline(file, line); ++streams) {
    const std::size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    nlohmann::json members = nlohmann::json::parse(line.substr(0, tab));
    const std::string model = members["model"];
    CAPTURE(model);
    members.erase("model");
    members["step_protocol"] = "fresh";
    const std::string path = TemporaryFile("measured.trace", "");
    const auto run = RunChild({Job(model, members), Probe(1, 16, {{"steps", 3}, {"trace", path}})});
    REQUIRE(run.answers.size() == 2);
    REQUIRE(run.answers[1]["outcome"] == "ok");
    const auto trace = memmodel::ReadTrace(path);
    REQUIRE(trace.ok());
    std::string events;
    for (const Event& event : trace->events) {
      const std::string text = EventText(event);
      if (!text.empty()) events += (events.empty() ? "" : " ") + text;
    }
    const std::string measured = line.substr(tab + 1);
    const auto first =
        std::mismatch(measured.begin(), measured.end(), events.begin(), events.end());
    CAPTURE(measured.substr(static_cast<std::size_t>(first.first - measured.begin()), 60));
    const bool same = events == measured;  // not printed whole
    CHECK(same);
  }
  CHECK(streams == 3);
}
