#include <doctest/doctest.h>

#include "memmodel/validate.h"

namespace memmodel {
namespace {

TEST_CASE("a line of a measured file is read with its short names") {
  const auto runs = ParseRuns(
      R"({"model":"resnet50","batch":16,"opt":"sgd","prec":"bf16","bench":true,"cl":false,"cap":null,)"
      R"("steps":3,"ok":true,"peak_alloc":100,"peak_reserved":200,"nvml":300,"marks":[1,2]})"
      "\n",
      "f");
  REQUIRE(runs.ok());
  REQUIRE(runs->size() == 1);
  const MeasuredRun& run = runs->front();
  CHECK(run.model == "resnet50");
  CHECK(run.batch == 16);
  CHECK(FormatOptimizer(run.job.optimizer) == "sgd:momentum=0.9");
  CHECK(run.job.precision == Precision::kAmpBf16);
  CHECK(run.job.step_protocol == StepProtocol::kMinimal);
  CHECK(run.job.cudnn_benchmark);
  CHECK_FALSE(run.job.channels_last);
  CHECK(run.allocated == 100);
  CHECK(run.reserved == 200);
  CHECK(run.device == 300);
  CHECK_FALSE(run.cap.has_value());
  CHECK(run.skipped.empty());
}

TEST_CASE("searches, failed runs and other modes are told apart") {
  const auto runs = ParseRuns(
      R"({"kind":"max_batch","model":"lstm","opt":"adamw","prec":"fp32","cap":24,"max_ok":1989,"min_oom":1993})"
      "\n"
      R"({"model":"a","batch":1,"ok":false})"
      "\n"
      R"({"model":"a","batch":1,"mode":"ddp","world":2})"
      "\n",
      "f");
  REQUIRE(runs.ok());
  CHECK((*runs)[0].batch == 1989);
  CHECK((*runs)[0].smallest_oom == 1993);
  CHECK((*runs)[0].cap == 24 * kGiB);
  CHECK((*runs)[1].skipped == "the run did not end well");
  CHECK((*runs)[2].skipped.find("ddp") != std::string::npos);
}

TEST_CASE("CSV has the same fields") {
  const auto runs = ParseRuns(
      "model,batch,optimizer,precision,allocated_bytes,device_bytes\n"
      "vit,8,adamw:fused=true,amp-fp16,1000,\n",
      "f");
  REQUIRE(runs.ok());
  CHECK((*runs)[0].job.precision == Precision::kAmpFp16);
  CHECK((*runs)[0].allocated == 1000);
  CHECK_FALSE((*runs)[0].device.has_value());
  CHECK_FALSE((*runs)[0].reserved.has_value());
}

TEST_CASE("what cannot be read is named with its line") {
  const auto message = [](const char* text) { return ParseRuns(text, "f").status().message(); };
  CHECK(message("").find("holds no runs") != std::string::npos);
  CHECK(message("{\"model\":\"a\",\"batch\":1}\n{broken\n").find("f:2: not a JSON object") == 0);
  CHECK(message("{\"batch\":1}\n").find("f:1: no field 'model'") == 0);
  CHECK(message("{\"model\":\"a\"}\n").find("f:1: no field 'batch'") == 0);
  CHECK(message("{\"model\":\"../a\",\"batch\":1}\n").find("'model'") != std::string::npos);
  CHECK(message("{\"model\":\"a\",\"batch\":1,\"opt\":\"nope\"}\n").find("f:1: ") == 0);
  CHECK(message("model,batch\na,1,2\n").find("f:2: another number of fields") == 0);
  CHECK(message("[1,2]\n").find("holds no runs") != std::string::npos);
}

TEST_CASE("NVML's figure at the end is raised by what was given back since the peak") {
  // As measured: torch.backends.cudnn.benchmark gives its trial workspaces back.
  const Result<std::vector<MeasuredRun>> runs = ParseRuns(
      R"({"model": "a", "batch": 1, "peak_reserved": 3000, "nvml": 1900, "marks": [{"reserved": 3000}, {"reserved": 1000}]})"
      "\n"
      R"({"model": "a", "batch": 1, "reserved_bytes": 3000, "device_bytes": 1900, "reserved_end_bytes": 2500})"
      "\n"
      R"({"model": "a", "batch": 1, "reserved_bytes": 3000, "device_bytes": 3900, "loss": "output"})",
      "x");
  REQUIRE_MESSAGE(runs.ok(), runs.status().message());
  CHECK(*(*runs)[0].device == 3900);
  CHECK(*(*runs)[1].device == 2400);
  CHECK(*(*runs)[2].device == 3900);
  CHECK((*runs)[2].job.loss == Loss::kOutput);
}

}  // namespace
}  // namespace memmodel
