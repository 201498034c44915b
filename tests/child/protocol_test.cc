// The lines below are written as docs/architecture.md has them.
#include "src/child/protocol.h"

#include <doctest/doctest.h>

using namespace memmodel;

TEST_CASE("the loaded model is read field by field") {
  const Result<ChildLine> line = ParseChildLine(
      R"({"loaded":true,"kind":"torchscript","torch_version":"2.11.0+cu130","cudnn_version":91900,)"
      R"("parameters":25557032,"parameter_bytes":102228128,"buffer_bytes":212904,)"
      R"("inputs":[{"name":"","shape":[3,224,224],"dtype":"float32","assumed":true}],)"
      R"("batch_fixed":null,"loss":"ce","assumptions":["input 3x224x224"],"load_ms":31.0})");
  REQUIRE(line.ok());
  const auto& loaded = std::get<LoadedModel>(*line);
  CHECK(loaded.kind == "torchscript");
  CHECK(*loaded.cudnn_version == 91900);
  CHECK(loaded.parameter_bytes == 102228128);
  REQUIRE(loaded.inputs.size() == 1);
  CHECK(loaded.inputs[0].shape == std::vector<std::int64_t>{3, 224, 224});
  CHECK(loaded.inputs[0].assumed);
  CHECK_FALSE(loaded.batch_fixed.has_value());
}

TEST_CASE("a probe's answer is read field by field") {
  const Result<ChildLine> line = ParseChildLine(
      R"({"probe":7,"outcome":"ok","peak":{"allocated_bytes":10,"reserved_bytes":20},"retries":1,)"
      R"("ooms":0,"segments":3,"steps":[{"forward":{"peak_allocated_bytes":5,"allocated_bytes":4},)"
      R"("reserved_bytes":20}],"unknown":[{"operator":"aten::nonzero","module":"roi_heads","bytes":8}],)"
      R"("refused":[{"function":"cudaGraphLaunch","count":2}],"context":{"cublas_handles":2}})");
  REQUIRE(line.ok());
  const auto& answer = std::get<ProbeAnswer>(*line);
  CHECK(answer.id == 7);
  CHECK(answer.outcome == Outcome::kOk);
  CHECK(*answer.peak_reserved == 20);
  CHECK(answer.retries == 1);
  REQUIRE(answer.steps.size() == 1);
  CHECK(answer.steps[0].forward->peak_allocated == 5);
  CHECK_FALSE(answer.steps[0].backward.has_value());
  REQUIRE(answer.unknown.size() == 1);
  CHECK(answer.unknown[0].op == "aten::nonzero");
  CHECK(answer.refused[0].function == "cudaGraphLaunch");
  CHECK(*answer.context.cublas_handles == 2);
  CHECK_FALSE(answer.context.cudnn_handles.has_value());
}

TEST_CASE("the child's error keeps its code, operator and module") {
  const Result<ChildLine> line = ParseChildLine(
      R"({"error":{"code":"bad_input","message":"shapes cannot be multiplied",)"
      R"("operator":"aten::addmm","module":"head"}})");
  REQUIRE_FALSE(line.ok());
  CHECK(line.status().code() == StatusCode::kBadInput);
  CHECK(line.status().message() ==
        "shapes cannot be multiplied (operator aten::addmm, module head)");
}

TEST_CASE("nonsense is not taken for an answer") {
  for (const char* text : {"", "hello", "[]", "{}", "{\"probe\":\"x\"}", "{\"probe\":1}",
                           "{\"probe\":1,\"outcome\":\"great\"}", "{\"probe\":1,\"outcome\":\"ok\"}",
                           "{\"loaded\":\"yes\"}"}) {
    CAPTURE(text);
    const Result<ChildLine> line = ParseChildLine(text);
    REQUIRE_FALSE(line.ok());
    CHECK(line.status().code() == StatusCode::kUnavailable);
  }
}
