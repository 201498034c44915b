#include "memmodel/job.h"

#include <doctest/doctest.h>

using namespace memmodel;

TEST_CASE("inputs are [name=]shape[:dtype]") {
  const Result<InputSpec> image = ParseInputSpec("3x224x224");
  REQUIRE(image.ok());
  CHECK(image->shape == std::vector<std::int64_t>{3, 224, 224});
  CHECK(image->name.empty());
  CHECK(image->dtype.empty());
  const Result<InputSpec> tokens = ParseInputSpec("tokens=512:int64");
  REQUIRE(tokens.ok());
  CHECK(tokens->name == "tokens");
  CHECK(tokens->shape == std::vector<std::int64_t>{512});
  CHECK(tokens->dtype == "int64");
  CHECK(FormatInputSpec(*tokens) == "tokens=512:int64");
  CHECK(FormatInputSpec(*image) == "3x224x224");
}

TEST_CASE("wrong inputs are refused with what was found") {
  for (const char* text : {"", "3x", "x3", "3x0x3", "-1x3", "3xabc", "=3", "3:flaot32",
                           "9999999999999x9999999999999", "3x99999999999999999999"}) {
    CAPTURE(text);
    const Result<InputSpec> spec = ParseInputSpec(text);
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.status().code() == StatusCode::kInvalidArgument);
  }
  CHECK(ParseInputSpec("3:flaot32").status().message().find("did you mean 'float32'") !=
        std::string::npos);
}

TEST_CASE("optimizers carry torch's names and options") {
  const Result<OptimizerSpec> sgd = ParseOptimizer("SGD:momentum=0.9,nesterov=true");
  REQUIRE(sgd.ok());
  CHECK(sgd->name == "sgd");
  REQUIRE(sgd->options.size() == 2);
  CHECK(sgd->options[0] == std::pair<std::string, std::string>("momentum", "0.9"));
  CHECK(FormatOptimizer(*sgd) == "sgd:momentum=0.9,nesterov=true");
  CHECK(ParseOptimizer("adamw")->options.empty());
  CHECK(ParseOptimizer("admaw").status().message().find("did you mean 'adamw'") !=
        std::string::npos);
  CHECK(ParseOptimizer("sgd:momentun=0.9").status().message().find("did you mean 'momentum'") !=
        std::string::npos);
  CHECK_FALSE(ParseOptimizer("sgd:momentum").ok());
  CHECK_FALSE(ParseOptimizer("sgd:momentum=").ok());
  CHECK_FALSE(ParseOptimizer("").ok());
}

TEST_CASE("names go there and back") {
  CHECK(Name(*ParsePrecision("amp-bf16")) == "amp-bf16");
  CHECK(*ParseLoss("ce") == Loss::kCrossEntropy);
  CHECK(*ParseStepProtocol("minimal") == StepProtocol::kMinimal);
  CHECK(*ParseDeviceKind("cuda") == DeviceKind::kCuda);
  CHECK(ParseMode("tarin").status().message().find("did you mean 'train'") != std::string::npos);
  CHECK_FALSE(ParsePrecision("FP32 ").ok());
}
