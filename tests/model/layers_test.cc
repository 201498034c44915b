#include "src/model/layers.h"

#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

TEST_CASE("each layer has its weights, gradients, activations and workspace") {
  const std::vector<Trace> traces = test::Samples({2, 4, 8, 16});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  const std::vector<LayerModel> layers = LayersOf(*program);
  const LayerModel* conv = nullptr;
  const LayerModel* fc = nullptr;
  for (const LayerModel& layer : layers) {
    if (layer.path == "conv1") conv = &layer;
    if (layer.path == "fc") fc = &layer;
  }
  REQUIRE(conv != nullptr);
  REQUIRE(fc != nullptr);
  CHECK(conv->type == "Conv2d");
  CHECK(conv->weights == 4096);
  CHECK(conv->activations.alpha == 0);
  CHECK(conv->activations.beta == 2048);
  CHECK(conv->activations_exact);
  REQUIRE(conv->workspace.traced.size() == 4);
  CHECK(conv->workspace.traced[1].bytes == 65536);
  CHECK(conv->workspace.traced[2].bytes == 0);
  CHECK(fc->weights == 2048);
  CHECK(fc->activations.beta == 512);
  CHECK(fc->workspace.rule == "none");
}

TEST_CASE("requests of some batches only are named") {
  const std::vector<Trace> traces = test::Samples({2, 4, 8, 16});
  const Result<Program> program = BuildProgram(traces);
  REQUIRE(program.ok());
  const std::vector<OrderChange> changes = OrderChangesOf(*program);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].operator_name == "aten::cudnn_convolution");
  CHECK(changes[0].module_path == "conv1");
  CHECK(changes[0].phase == Phase::kForward);
  CHECK(changes[0].present == std::vector<std::int64_t>{2, 4});
  CHECK(changes[0].absent == std::vector<std::int64_t>{8, 16});
  CHECK(changes[0].largest_bytes == 65536);
  CHECK(changes[0].requests == 2);
}

}  // namespace
}  // namespace memmodel
