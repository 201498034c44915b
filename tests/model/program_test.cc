#include "src/model/program.h"

#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

TEST_CASE("a workspace of the small batches is the one thing that comes and goes") {
  const std::vector<Trace> traces = test::Samples({2, 4, 8, 16});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  CHECK(program->batches == std::vector<std::int64_t>{2, 4, 8, 16});
  int sometimes = 0;
  for (const ProgramEvent& event : program->events) {
    if (event.mask == 0b1111) continue;
    CHECK(event.mask == 0b0011);
    ++sometimes;
  }
  CHECK(sometimes == 4);  // request and release, in two steps
  CHECK(program->SameRequests(0, 1));
  CHECK_FALSE(program->SameRequests(1, 2));
}

TEST_CASE("parameters, gradients and states belong to the layer that owns them") {
  const std::vector<Trace> traces = test::Samples({2, 4});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  int owned = 0;
  for (const ProgramEvent& event : program->events) {
    if (event.role != TensorRole::kWeight && event.role != TensorRole::kGradient) continue;
    REQUIRE(event.module >= 0);
    const std::string& path = program->modules[static_cast<std::size_t>(event.module)].path;
    const SizeRule& rule = program->rules[static_cast<std::size_t>(event.target)];
    CHECK(rule.At(1) == (path == "conv1" ? 4096 : 2048));
    ++owned;
  }
  CHECK(owned == 4);
}

// TorchScript calls "blocks.conv1" by the path "conv1": the container is not called.
TEST_CASE("a container that is not called does not part a layer from its parameters") {
  std::vector<Trace> traces;
  for (const std::int64_t b : {2, 4}) {
    std::string text = test::SampleText(b);
    for (std::size_t at = 0; (at = text.find(" conv1.weight", at)) != std::string::npos;) {
      text.insert(at + 1, "blocks.");
      at += 8;
    }
    traces.push_back(*ParseTrace(text, "sample"));
  }
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  for (const ModuleInfo& module : program->modules)
    CHECK(module.path.find("blocks") == std::string::npos);
}

// Dimensions of size 1 are special to torch: of two batches, 1 is never the one to go by.
TEST_CASE("batch 1 stands for no other") {
  const std::vector<Trace> traces = test::Samples({1, 64});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  CHECK(program->Nearest(1) == 0);
  CHECK(program->Nearest(2) == 1);
}

TEST_CASE("the neighbour that is nearer as a ratio stands for a batch between two") {
  const std::vector<Trace> traces = test::Samples({4, 16});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  CHECK(program->Nearest(7) == 0);
  CHECK(program->Nearest(9) == 1);
  CHECK(program->Nearest(1) == 0);
  CHECK(program->Nearest(100) == 1);
  CHECK_FALSE(program->NeighboursOf(3).inside);
  CHECK(program->NeighboursOf(16).low == program->NeighboursOf(16).high);
}

TEST_CASE("one batch alone, and different numbers of steps, are refused") {
  const std::vector<Trace> one = test::Samples({4, 4});
  CHECK(BuildProgram(one).status().message().find("at least two") != std::string::npos);
  const std::vector<Trace> steps = {test::Sample(4, 2), test::Sample(8, 3)};
  CHECK(BuildProgram(steps).status().message().find("2 and 3 steps") != std::string::npos);
}

}  // namespace
}  // namespace memmodel
