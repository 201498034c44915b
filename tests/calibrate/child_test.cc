// memmodel calibrate from end to end, with the virtual GPU where the real one would be: its
// answers are measured ones (data/devices/h200.json, data/cudnn/h200.plans).
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "memmodel/calibrate.h"
#include "src/calibrate/plan_file.h"

namespace fs = std::filesystem;
using namespace memmodel;

TEST_CASE("figures and plans end up where predictions look first") {
  std::string folder = fs::temp_directory_path() / "memmodel-calibrate-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  setenv("MEMMODEL_USER_DATA", folder.c_str(), 1);
  setenv("MEMMODEL_DATA", MEMMODEL_SOURCE_DIR "/data", 1);
  CalibrateOptions options;
  options.device = DeviceKind::kVirtual;
  options.child.program = MEMMODEL_BINARY_DIR "/memmodel-trace";
  options.child.environment = {
      {"MEMMODEL_VGPU_DEVICE", MEMMODEL_SOURCE_DIR "/data/devices/h200.json"}};
  options.batches = {1, 16};
  options.parallel = 2;
  options.plans = {"dgrad bf16 16 1024 14 14 2048 1 1 0 0 2 2 1 1 1 0"};
  Job job;
  job.model = MEMMODEL_SOURCE_DIR "/models/resnet50.pt";
  options.jobs = {job};

  const Result<Calibration> done = Calibrate(options);
  REQUIRE_MESSAGE(done.ok(), done.status().message());
  CHECK(done->device.name == "h200");
  CHECK(done->device.total_bytes == 150109880320);
  CHECK(done->device.context.base == 610 * kMiB);
  CHECK(done->device.context.cublas_handle == 66 * kMiB);
  CHECK(done->device.context.cudnn_handle == 8 * kMiB);
  CHECK(done->device.path == folder + "/devices/h200.json");
  CHECK(done->without_plan == 0);
  const Result<PlanFile> table = ReadPlanFile(done->plans_path);
  REQUIRE_MESSAGE(table.ok(), table.status().message());
  CHECK(table->rows.at(options.plans[0]) == "9633939 73");
  CHECK(table->rows.size() == done->plans_in_file);
  CHECK(done->plans_in_file > 7000);  // the shipped ones are kept
  // The first convolution of ResNet-50 at both batches.
  for (const char* key :
       {"fwd f32 1 3 224 224 64 7 7 3 3 2 2 1 1 1 0", "fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 0",
        "wgrad f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 0"}) {
    CAPTURE(key);
    CHECK(table->rows.contains(key));
  }
  // It has 53 convolutions, of which many are alike; each is asked at both batches.
  CHECK(done->plans > 100);
  CHECK(done->plans < 2 * 3 * 53);
  CHECK(done->plans % 2 == 1);  // pairs, and the one that was asked by its key
  fs::remove_all(folder);
}

TEST_CASE("a convolution that is none is refused before anything is asked") {
  CalibrateOptions options;
  options.plans = {"fwd f32 16"};
  const Result<Calibration> done = Calibrate(options);
  REQUIRE_FALSE(done.ok());
  CHECK(done.status().code() == StatusCode::kInvalidArgument);
}
