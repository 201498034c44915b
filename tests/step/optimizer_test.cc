// The optimizers' requests are those of Python's torch.optim (data/optimizer_streams.txt,
// recorded by make_optimizer_streams.py with torch 2.11), in size and order.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "memmodel/trace.h"
#include "tests/step/child.h"

namespace {

using memmodel::Event;
using memmodel::EventKind;

constexpr const char* kData = MEMMODEL_SOURCE_DIR "/tests/step/data/";

// What stands between "backward done" and "step done", one string a step.
std::vector<std::string> OptimizerParts(const memmodel::Trace& trace) {
  std::vector<std::string> parts;
  bool inside = false;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kMarker) {
      inside = trace.Text(event.text) == "backward done";
      if (inside) parts.emplace_back();
      continue;
    }
    const bool request = event.kind == EventKind::kAlloc;
    if (!inside || (!request && event.kind != EventKind::kFree)) continue;
    std::string& part = parts.back();
    part += (part.empty() ? "" : " ") + std::string(request ? "a" : "f") +
            std::to_string((event.size + 511) / 512);
  }
  return parts;
}

}  // namespace

TEST_CASE("optimizers ask for what Python's ask for") {
  std::ifstream file(std::string(kData) + "optimizer_streams.txt");
  REQUIRE(file);
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream fields(line);
    std::string members, first, second;
    std::getline(fields, members, '\t');
    std::getline(fields, first, '\t');
    std::getline(fields, second, '\t');
    CAPTURE(members);
    nlohmann::json job = nlohmann::json::parse(members);
    job["step_protocol"] = "minimal";
    job["loss"] = "ce";
    job["inputs"] = {{{"shape", {64}}}};
    const bool matrices = job["optimizer"]["name"] == "muon";
    const std::string path = memmodel::testing::TemporaryFile("optimizer.trace", "");
    const auto run = memmodel::testing::RunChild(
        {memmodel::testing::Job(kData + std::string(matrices ? "matrix_net.pt" : "linear_net.pt"),
                                job),
         memmodel::testing::Probe(1, 16, {{"steps", 2}, {"trace", path}})});
    REQUIRE(run.answers.size() == 2);
    REQUIRE(run.answers[1]["outcome"] == "ok");
    const auto trace = memmodel::ReadTrace(path);
    REQUIRE(trace.ok());
    const std::vector<std::string> parts = OptimizerParts(*trace);
    REQUIRE(parts.size() == 2);
    CHECK(parts[0] == first);
    CHECK(parts[1] == second);
  }
  CHECK(cases > 80);
}
