// The optimizers' requests are those of Python's torch.optim (data/optimizer_streams.txt,
// recorded by make_optimizer_streams.py with torch 2.11), in size and order.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
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
    const std::string text = memmodel::testing::EventText(event);
    if (!inside || text.empty()) continue;
    std::string& part = parts.back();
    part += (part.empty() ? "" : " ") + text;
  }
  return parts;
}

}  // namespace

TEST_CASE("optimizers ask for what Python's ask for") {
  struct Case {
    std::string members, first, second, trace;
  };
  // One child for all cases that differ in the optimizer alone: key "model, other members".
  std::map<std::pair<std::string, std::string>,
           std::pair<std::vector<nlohmann::json>, std::vector<Case>>>
      groups;
  std::ifstream file(std::string(kData) + "optimizer_streams.txt");
  REQUIRE(file);
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    std::istringstream fields(line);
    Case one;
    std::getline(fields, one.members, '\t');
    std::getline(fields, one.first, '\t');
    std::getline(fields, one.second, '\t');
    nlohmann::json members = nlohmann::json::parse(one.members);
    const nlohmann::json optimizer = members["optimizer"];
    members.erase("optimizer");
    const std::string model = optimizer["name"] == "muon" ? "matrix_net.pt" : "linear_net.pt";
    one.trace = memmodel::testing::TemporaryFile("optimizer" + std::to_string(cases), "");
    auto& [lines, group] = groups[{model, members.dump()}];
    if (lines.empty()) {
      members.update(
          {{"step_protocol", "minimal"}, {"loss", "ce"}, {"inputs", {{{"shape", {64}}}}}});
      lines.push_back(memmodel::testing::Job(kData + model, members));
    }
    lines.push_back(memmodel::testing::Probe(
        cases, 16, {{"steps", 2}, {"trace", one.trace}, {"optimizer", optimizer}}));
    group.push_back(one);
  }
  CHECK(cases > 80);
  for (const auto& [key, value] : groups) {
    const auto& [lines, group] = value;
    const auto run = memmodel::testing::RunChild(lines);
    REQUIRE(run.answers.size() == lines.size());
    for (const Case& one : group) {
      CAPTURE(one.members);
      const auto trace = memmodel::ReadTrace(one.trace);
      REQUIRE(trace.ok());
      const std::vector<std::string> parts = OptimizerParts(*trace);
      REQUIRE(parts.size() == 2);
      CHECK(parts[0] == one.first);
      CHECK(parts[1] == one.second);
    }
  }
}
