// Which inputs and which loss a job runs with.
#include <doctest/doctest.h>

#include "tests/step/child.h"

using memmodel::testing::Job;
using memmodel::testing::Probe;
using memmodel::testing::Run;
using memmodel::testing::RunChild;
using nlohmann::json;

TEST_CASE("stored inputs are used as they are, and the loss follows from the output") {
  struct Case {
    const char* model;
    json shape;
    const char* dtype;
    const char* loss;
    std::int64_t parameters;  // as torchvision and transformers document them
  };
  const Case cases[] = {
      {"resnet50.pt", {3, 224, 224}, "float32", "ce", 25557032},
      {"mobilenet_v2.pt", {3, 224, 224}, "float32", "ce", 3504872},
      {"vit_b_16.pt", {3, 224, 224}, "float32", "ce", 86567656},
      {"gpt2.pt", {512}, "int64", "output", 124439808},
      {"bert.pt", {512}, "int64", "output", 109514298},
  };
  for (const Case& c : cases) {
    CAPTURE(c.model);
    const Run run = RunChild({Job(c.model)});
    REQUIRE(run.answers.size() == 1);
    const json& loaded = run.answers[0];
    REQUIRE(loaded.value("loaded", false));
    CHECK(loaded["inputs"][0]["shape"] == c.shape);
    CHECK(loaded["inputs"][0]["dtype"] == c.dtype);
    CHECK(loaded["inputs"][0]["assumed"] == false);
    CHECK(loaded["loss"] == c.loss);
    CHECK(loaded["parameters"] == c.parameters);
    CHECK(loaded["parameter_bytes"] == 4 * c.parameters);
  }
}

TEST_CASE("a shape that is given overrides the stored one") {
  const Run run = RunChild({Job("resnet50.pt", {{"inputs", {{{"shape", {3, 96, 96}}}}}})});
  REQUIRE(run.answers.size() == 1);
  CHECK(run.answers[0]["inputs"][0]["shape"] == json({3, 96, 96}));
}
