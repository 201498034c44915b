#include "src/model/peak.h"

#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

TEST_CASE("the closed form equals a walk through the events at every batch") {
  const std::vector<Trace> traces = test::Samples({1, 2, 7, 8, 64});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  const PeakEnvelope envelope(*program);
  for (std::int64_t b = 1; b <= 300; ++b) {
    CAPTURE(b);
    REQUIRE(envelope.At(*program, b) == test::WalkedPeak(test::Sample(b)));
  }
  CHECK(envelope.candidates() < 6);
}

TEST_CASE("the event of the peak moves from the workspace to the backward pass") {
  const std::vector<Trace> traces = test::Samples({1, 2, 4, 7});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  const PeakEnvelope envelope(*program);
  const auto op_at = [&](std::int64_t b) {
    const ProgramEvent& event =
        program->events[static_cast<std::size_t>(envelope.EventAt(*program, b))];
    return program->operators[static_cast<std::size_t>(event.op)];
  };
  // b = 1: weights 6144 + gradients 6144 + 3072 b + workspace 65536 beats the
  // backward's 5632 b + 512 until 2560 b > 65024, b = 25.4.
  CHECK(op_at(1) == "aten::cudnn_convolution");
  CHECK(op_at(100) == "AddmmBackward0");
}

}  // namespace
}  // namespace memmodel
