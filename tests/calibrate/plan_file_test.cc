#include "src/calibrate/plan_file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;
using namespace memmodel;

TEST_CASE("a key is an operation, a type and fifteen numbers in range") {
  CHECK(IsPlanKey("fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 0"));
  CHECK(IsPlanKey("wgrad bf16 1 8 1 1 8 1 1 0 0 1 1 1 1 8 1"));
  for (const char* key : {
           "",
           "fwd",
           "fwd f32",
           "fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1",      // one short
           "fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 0 0",  // one too many
           "fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 2",    // channels_last 2
           "fwd f64 16 3 224 224 64 7 7 3 3 2 2 1 1 1 0",
           "conv f32 1 1 1 1 1 1 1 0 0 1 1 1 1 1 0",
           "fwd f32 0 3 224 224 64 7 7 3 3 2 2 1 1 1 0",    // batch 0
           "fwd f32 16 3 224 224 64 7 7 -1 3 2 2 1 1 1 0",  // padding below 0
           "fwd f32 16 3 224 224 64 7 7 3 3 2 2 1 1 1 99999999999",
       }) {
    CAPTURE(key);
    CHECK_FALSE(IsPlanKey(key));
  }
}

TEST_CASE("the shipped table is read and written as it is") {
  const std::string shipped = MEMMODEL_SOURCE_DIR "/data/cudnn/h200.plans";
  const Result<PlanFile> file = ReadPlanFile(shipped);
  REQUIRE_MESSAGE(file.ok(), file.status().message());
  CHECK(file->cudnn_version == 91900);
  CHECK(file->device_name == "NVIDIA H200");
  // ResNet-50's last stage at batch 16 in bf16, as the file's source measured it.
  CHECK(file->rows.at("dgrad bf16 16 1024 14 14 2048 1 1 0 0 2 2 1 1 1 0") == "9633939 73");
  std::string folder = fs::temp_directory_path() / "memmodel-plans-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  REQUIRE(WritePlanFile(*file, folder + "/again.plans").ok());
  const auto bytes = [](const std::string& path) {
    std::ifstream stream(path);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  CHECK(bytes(folder + "/again.plans") == bytes(shipped));
  fs::remove_all(folder);
}

TEST_CASE("a file of another kind is named") {
  std::string folder = fs::temp_directory_path() / "memmodel-plans-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  for (const char* text :
       {"", "hello\n", "# memmodel cudnn plans 2; cudnn 91900; device X; source: y\n",
        "# memmodel cudnn plans 1; cudnn 91900; device X; source: y\nfwd 1 2\n"}) {
    std::ofstream(folder + "/bad.plans") << text;
    const Result<PlanFile> file = ReadPlanFile(folder + "/bad.plans");
    REQUIRE_FALSE(file.ok());
    CHECK(file.status().message().find("bad.plans") != std::string::npos);
  }
  fs::remove_all(folder);
}
