// Files and requests that cannot be served: one message, the right code, no crash.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "memmodel/status.h"
#include "tests/step/child.h"

using memmodel::testing::Job;
using memmodel::testing::Probe;
using memmodel::testing::Run;
using memmodel::testing::RunChild;
using memmodel::testing::TemporaryFile;
using nlohmann::json;

namespace {

// The one error of a job that is refused before it is loaded.
json ErrorOf(const json& job, int exit_code = memmodel::kExitBadInput) {
  const Run run = RunChild({job});
  CHECK(run.exit_code == exit_code);
  REQUIRE(run.answers.size() == 1);
  REQUIRE(run.answers[0].contains("error"));
  json error = run.answers[0]["error"];
  const std::string message = error["message"];
  CHECK(message.find('\n') == std::string::npos);
  return error;
}

bool Says(const json& error, const std::string& text) {
  return error["message"].get<std::string>().find(text) != std::string::npos;
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

const std::string kResNet = std::string(MEMMODEL_SOURCE_DIR) + "/models/resnet50.pt";

}  // namespace

TEST_CASE("paths that are no model") {
  CHECK(Says(ErrorOf(Job("/no/such/file.pt")), "No such file"));
  CHECK(Says(ErrorOf(Job("/tmp")), "is a directory"));
  CHECK(Says(ErrorOf(Job("/dev/null")), "not a regular file"));
  CHECK(Says(ErrorOf(Job(TemporaryFile("empty.pt", ""))), "is empty"));
  CHECK(Says(ErrorOf(Job(TemporaryFile("text.pt", "hello world"))), "no PyTorch archive"));
  const std::string whole = Content(kResNet);
  REQUIRE(whole.size() > 100000);
  CHECK(Says(ErrorOf(Job(TemporaryFile("half.pt", whole.substr(0, whole.size() / 2)))),
             "truncated or damaged"));
}

TEST_CASE("a damaged archive never crashes the server") {
  const std::string whole = Content(kResNet);
  for (const std::size_t at : {200UL, 5000UL, 60000UL, whole.size() - 3000, whole.size() - 100}) {
    std::string damaged = whole;
    for (std::size_t i = at; i < at + 64; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
    const Run run = RunChild({Job(TemporaryFile("damaged.pt", damaged))});
    CAPTURE(at);
    CHECK(run.exit_code >= 0);
    REQUIRE(run.answers.size() == 1);
    CHECK((run.answers[0].contains("error") || run.answers[0].value("loaded", false)));
  }
}

TEST_CASE("files of torch.save are described, not run") {
  const std::string data = std::string(MEMMODEL_TEST_DATA) + "/data/";
  // Conv2d(3, 8, 3): 224, BatchNorm2d(8): 16, Linear(8, 10): 90 parameters.
  for (const char* name : {"state_dict.pt", "checkpoint.pt", "module.pt", "legacy_state_dict.pt"}) {
    CAPTURE(name);
    const Run run = RunChild({Job(data + name)});
    REQUIRE(run.answers.size() == 1);
    const json& answer = run.answers[0];
    CHECK(answer["kind"] == "state_dict");
    CHECK(answer["what"] == (std::string(name) == "module.pt" ? "module" : "state_dict"));
    CHECK(answer["parameters"] == 330);
    CHECK(answer["parameter_bytes"] == 1320);
    CHECK(answer["tensors"][0]["shape"] == json({8, 3, 3, 3}));
    CHECK(answer["tensors"][0]["name"] == "0.weight");
  }
  // One storage under two names counts once: 36 floats.
  const Run tied = RunChild({Job(data + "tied.pt")});
  REQUIRE(tied.answers.size() == 1);
  CHECK(tied.answers[0]["parameter_bytes"] == 144);
  CHECK(Says(ErrorOf(Job(data + "list.pt")), "no weights"));
}

TEST_CASE("requests that are wrong") {
  CHECK(Says(ErrorOf(Job("resnet50.pt", {{"optimizer", {{"name", "adamv"}}}})), "known are sgd"));
  CHECK(Says(
      ErrorOf(Job("resnet50.pt", {{"optimizer", {{"name", "sgd"}, {"options", {{"beta", 1}}}}}})),
      "it takes"));
  CHECK(Says(ErrorOf(Job("resnet50.pt", {{"precision", "fp8"}})), "expected one of fp32"));
  const json shape = ErrorOf(Job("resnet50.pt", {{"inputs", {{{"shape", {4, 224, 224}}}}}}));
  CHECK(shape["operator"] == "aten::_convolution");
  CHECK(shape["module"] == "conv1");
  CHECK(Says(shape, "to have 3 channels, but got 4 channels"));
  CHECK(Says(ErrorOf(Job("resnet50.pt", {{"inputs", {{{"shape", {0, 224, 224}}}}}})), "size 0"));
}

TEST_CASE("a batch of 0 or less is refused, and the server goes on") {
  const Run run = RunChild({Job("mobilenet_v2.pt"), Probe(1, 0), Probe(2, -4), Probe(3, 1)});
  REQUIRE(run.answers.size() == 4);
  int refused = 0;
  for (const json& answer : run.answers)
    refused += answer.contains("error") && !answer.contains("probe") ? 1 : 0;
  CHECK(refused == 2);
  CHECK(run.answers.back()["outcome"] == "ok");
}

TEST_CASE("a probe that uses more host memory than it may is ended and reported") {
  const Run run = RunChild({Job("resnet50.pt", {{"memory_limit_bytes", 1 << 20}})});
  REQUIRE(run.answers.size() == 1);
  REQUIRE(run.answers[0].contains("error"));
  CHECK(Says(run.answers[0]["error"], " of host memory"));
}
