// memmodel calibrate from end to end, with the virtual GPU where the real one would be: its
// answers are measured ones (data/devices/h200.json, data/cudnn/h200.plans).
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "memmodel/calibrate.h"
#include "src/calibrate/ask_workspaces.h"
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
  Job not_at_one = job;
  not_at_one.model = MEMMODEL_SOURCE_DIR "/tests/step/data/norm_net.pt";
  options.jobs = {job, not_at_one};

  const Result<Calibration> done = Calibrate(options);
  REQUIRE_MESSAGE(done.ok(), done.status().message());
  REQUIRE(done->failed.size() == 1);
  CHECK(done->failed[0].find("norm_net.pt does not run at batch 1") != std::string::npos);
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

// By hand from gpu_reduce_kernel (torch's Reduce.cuh), 3,072 sums of 1,576 floats each on
// 132 multiprocessors of 2,048 threads: 4 outputs a thread, blocks of 32 x 4 threads, 24 of
// them; 394 values a thread are more than 256, so 25 blocks (of 16 values a thread) share
// each sum. They leave 4 bytes * 3,072 * 25 * 32 * 4, and 24 semaphores of 4 bytes. Of
// 1,000 sums of 8 nothing is shared.
TEST_CASE("workspaces of a reduction and of a convolution are asked without a network") {
  ChildOptions child;
  child.program = MEMMODEL_BINARY_DIR "/memmodel-trace";
  child.environment = {{"MEMMODEL_VGPU_DEVICE", MEMMODEL_SOURCE_DIR "/data/devices/h200.json"}};
  const std::string large = "aten::sum.dim_IntList Float(1576,3072;3072,1;0) [0] true none";
  const std::string small = "aten::sum.dim_IntList Float(8,1000;1000,1;0) [0] true none";
  const std::string plan = "dgrad bf16 16 1024 14 14 2048 1 1 0 0 2 2 1 1 1 0";
  const Result<WorkspaceAnswers> answers =
      AskWorkspaces(child, DeviceKind::kVirtual,
                    {large, plan, small, "aten::sum.no_such Float(8;1;0)", "aten::sum Float(8;1)",
                     "aten::sum.dim_IntList Float(8;1;0) [7] true none", "aten::sum"},
                    2);
  REQUIRE_MESSAGE(answers.ok(), answers.status().message());
  CHECK(answers->size() == 3);
  CHECK(answers->at(large) == std::vector<Bytes>{39321600, 96});
  CHECK(answers->at(small).empty());
  CHECK(answers->at(plan) == std::vector<Bytes>{9633939});  // measured, data/cudnn/h200.plans
}

TEST_CASE("a convolution that is none is refused before anything is asked") {
  CalibrateOptions options;
  options.plans = {"fwd f32 16"};
  const Result<Calibration> done = Calibrate(options);
  REQUIRE_FALSE(done.ok());
  CHECK(done.status().code() == StatusCode::kInvalidArgument);
}
