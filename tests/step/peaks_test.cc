// Peaks of real training steps. Every number was measured on an NVIDIA H200 (driver
// 580.159, torch 2.11.0+cu130, cuDNN 9.19): torch.cuda.max_memory_allocated() over
// three steps at batch 16, input and target kept on the GPU (protocol "minimal").
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/step/child.h"

using memmodel::testing::Job;
using memmodel::testing::Probe;
using memmodel::testing::Run;
using memmodel::testing::RunChild;
using nlohmann::json;

namespace {

json Optimizer(const std::string& name, const json& options = json::object()) {
  return {{"name", name}, {"options", options}};
}

struct Measured {
  const char* model;
  json optimizer;
  const char* precision;
  std::int64_t weights;
  std::int64_t peak;
};

void Check(const Measured& m) {
  CAPTURE(m.model);
  CAPTURE(m.optimizer.dump());
  CAPTURE(m.precision);
  const Run run = RunChild(
      {Job(m.model,
           {{"optimizer", m.optimizer}, {"precision", m.precision}, {"step_protocol", "minimal"}}),
       Probe(1, 16)});
  REQUIRE(run.answers.size() == 2);
  CHECK(run.answers[0].value("loaded", false));
  const json& answer = run.answers[1];
  REQUIRE(answer["outcome"] == "ok");
  CHECK(answer["weights_bytes"] == m.weights);
  CHECK(answer["peak"]["allocated_bytes"] == m.peak);
}

}  // namespace

TEST_CASE("foreach, fused and single-tensor optimizers reach the measured peaks") {
  const std::int64_t weights = 14237184;
  const Measured measured[] = {
      {"mobilenet_v2.pt", Optimizer("sgd"), "fp32", weights, 1360094720},
      {"mobilenet_v2.pt", Optimizer("sgd", {{"momentum", 0.9}}), "fp32", weights, 1372382208},
      {"mobilenet_v2.pt", Optimizer("adam"), "fp32", weights, 1389474304},
      {"mobilenet_v2.pt", Optimizer("adamw", {{"fused", true}}), "fp32", weights, 1389555200},
      {"mobilenet_v2.pt", Optimizer("adamw", {{"foreach", false}}), "fp32", weights, 1389474304},
      {"mobilenet_v2.pt", Optimizer("rmsprop"), "fp32", weights, 1372382208},
      {"mobilenet_v2.pt", Optimizer("adagrad"), "fp32", weights, 1372382208},
      {"mobilenet_v2.pt", Optimizer("adafactor"), "fp32", weights, 1378337280},
      {"mobilenet_v2.pt", Optimizer("adamw"), "amp-fp16", weights, 790302208},
  };
  for (const Measured& m : measured) Check(m);
}

TEST_CASE("networks reach the measured peaks") {
  const json sgd = Optimizer("sgd", {{"momentum", 0.9}});
  Check({"resnet50.pt", sgd, "fp32", 102475264, 1722544640});
  Check({"unet.pt", sgd, "fp32", 125023232, 6320635904});
}

TEST_CASE("a card too small for the batch gives PyTorch's own error and the place") {
  const Run run = RunChild({Job("resnet50.pt"), Probe(7, 64, {{"total_bytes", 2147483648}}),
                            Probe(8, 1, {{"total_bytes", 2147483648}})});
  REQUIRE(run.answers.size() == 3);
  for (std::size_t i = 1; i < 3; ++i) {
    const json& answer = run.answers[i];
    if (answer["probe"] == 8) {
      CHECK(answer["outcome"] == "ok");
      continue;
    }
    CHECK(answer["outcome"] == "oom");
    const std::string message = answer["error"]["message"];
    CHECK(message.find("CUDA out of memory. Tried to allocate") == 0);
    CHECK(message.find("total capacity of 2.00 GiB") != std::string::npos);
    CHECK(answer["error"]["operator"].get<std::string>().find("aten::") == 0);
    CHECK(answer["ooms"].get<int>() >= 1);
  }
}

TEST_CASE("inference keeps no activations and makes no gradients") {
  // At least the weights; a forward alone takes less than a training step does.
  const Run train = RunChild({Job("resnet50.pt"), Probe(1, 8)});
  const Run infer = RunChild({Job("resnet50.pt", {{"mode", "infer"}}), Probe(1, 8)});
  REQUIRE(train.answers.size() == 2);
  REQUIRE(infer.answers.size() == 2);
  REQUIRE(infer.answers[1]["outcome"] == "ok");
  const std::int64_t peak = infer.answers[1]["peak"]["allocated_bytes"];
  CHECK(peak > 102475264);
  CHECK(peak < train.answers[1]["peak"]["allocated_bytes"].get<std::int64_t>() / 2);
  const json& steps = infer.answers[1]["steps"];
  CHECK(steps[1]["backward"]["allocated_bytes"] == steps[2]["backward"]["allocated_bytes"]);
}

TEST_CASE("checkpointed modules keep what torch.utils.checkpoint keeps") {
  // Measured on an NVIDIA H200 (driver 580.159, torch 2.11): vit_b_16, AdamW, batch 16 in fp32
  // and 64 under bf16 autocast, each encoder layer in checkpoint(use_reentrant=False): the
  // peak of the first forward and the reserved memory after three steps.
  struct Case {
    std::string precision;
    int batch;
    std::int64_t forward, reserved;
  };
  const std::vector<Case> cases{{"fp32", 16, 613838336, 2036334592},
                                {"amp-bf16", 64, 1351341568, 2493513728}};
  for (const Case& c : cases) {
    CAPTURE(c.precision);
    const Run run = RunChild({Job("vit_b_16.pt", {{"checkpoint", "encoder.layers.*"},
                                                  {"precision", c.precision},
                                                  {"step_protocol", "minimal"}}),
                              Probe(1, c.batch, {{"steps", 3}})});
    REQUIRE(run.answers.size() == 2);
    const json& answer = run.answers[1];
    REQUIRE(answer["outcome"] == "ok");
    CHECK(answer["steps"][0]["forward"]["peak_allocated_bytes"] == c.forward);
    CHECK(answer["peak"]["reserved_bytes"] == c.reserved);
  }
}

TEST_CASE("a glob that matches no module is refused with an example") {
  const Run run = RunChild({Job("vit_b_16.pt", {{"checkpoint", "nothing.*"}})});
  REQUIRE(run.answers.size() == 1);
  const std::string message = run.answers[0]["error"]["message"];
  CHECK(message.find("matches no module; a module here is encoder.") != std::string::npos);
}
