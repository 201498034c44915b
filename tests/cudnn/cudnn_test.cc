// Convolutions: workspaces against those measured on a GPU, and what must not
// happen, with the real libcudnn behind the stand-ins.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cudnn/convolution_plan.h"
#include "tests/cudnn/environment.h"

namespace {

using namespace memmodel::cudnn_plans;  // NOLINT(google-build-using-namespace)

constexpr const char* kStandIns = MEMMODEL_VGPU_DIR;

// `KEY BYTES ENGINE`, a line each, as the stand-ins answer.
std::string AskAll(const std::vector<Plan>& plans) {
  std::string text;
  for (const Plan& plan : plans) {
    const Plan answer = Ask(plan.key);
    text += answer.key + " " + std::to_string(answer.bytes) + " " + std::to_string(answer.engine) +
            "\n";
  }
  return text;
}

std::vector<Plan> Parse(const std::string& text, const std::string& folder) {
  const std::string path = folder + "/answers";
  std::ofstream(path) << text;
  return ReadPlans(path);
}

// The allocator rounds what it is asked for up to 512 bytes.
std::int64_t Rounded(std::int64_t bytes) { return (bytes + 511) / 512; }

struct Folder {
  Folder() {
    char name[] = "/tmp/memmodel-cudnn-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

// The H200's device file with `from` replaced.
std::string ChangedDevice(const Folder& folder, const std::string& from, const std::string& to) {
  std::stringstream text;
  text << std::ifstream(DeviceFile("h200")).rdbuf();
  std::string changed = text.str();
  REQUIRE(changed.find(from) != std::string::npos);
  changed.replace(changed.find(from), from.size(), to);
  const std::string path = folder.path + "/device.json";
  std::ofstream(path) << changed;
  return path;
}

const std::string kConvolution = "fwd f32 16 64 56 56 64 3 3 1 1 1 1 1 1 1 0";
const std::string kHalf = "fwd bf16 16 64 56 56 64 3 3 1 1 1 1 1 1 1 0";

std::string AskOne(const std::string& device, const std::string& key) {
  return InProcess(kStandIns, OnDevice(device), [&] { return AskAll({{.key = key}}); });
}

}  // namespace

TEST_CASE("workspaces of convolutions, by turns from every engine, as measured on an NVIDIA H200") {
  const Folder folder;
  const std::vector<Plan> measured = ReadPlans(MEMMODEL_TEST_DATA "/h200_plans.txt");
  REQUIRE(measured.size() == 62);
  const std::vector<Plan> answers =
      Parse(InProcess(kStandIns, OnDevice(DeviceFile("h200")), [&] { return AskAll(measured); }),
            folder.path);
  REQUIRE(answers.size() == measured.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    INFO(measured[i].key, ": ", answers[i].bytes, " by engine ", answers[i].engine, ", not ",
         measured[i].bytes, " by engine ", measured[i].engine);
    CHECK(Rounded(answers[i].bytes) == Rounded(measured[i].bytes));
    CHECK(answers[i].engine == measured[i].engine);
  }
}

TEST_CASE("a Tesla T4 has no engine for a bfloat16 convolution") {
  CHECK(AskOne(DeviceFile("t4"), kHalf) == kHalf + " -1 -1\n");
  CHECK(AskOne(DeviceFile("t4"), kConvolution).find(" -1 -1") == std::string::npos);
  CHECK(AskOne(DeviceFile("h200"), kHalf).find(" -1 -1") == std::string::npos);
}

TEST_CASE("a device file cannot reach into what cuDNN is told") {
  const Folder folder;
  const std::string right = AskOne(DeviceFile("h200"), kConvolution);
  CHECK(right.starts_with(kConvolution));
  // The name is text and stays text.
  const std::string name = ChangedDevice(folder, "\"NVIDIA H200\"",
                                         R"("x\",\"multiProcessorCount\":1,\"y\":\"\\\u0000\n")");
  CHECK(AskOne(name, kConvolution) == right);
  // Numbers that no GPU has: an answer or none, and no crash.
  for (const char* count : {"0", "1", "-1", "2147483647"}) {
    INFO(count);
    const std::string device = ChangedDevice(folder, "\"multiProcessorCount\": 132",
                                             std::string("\"multiProcessorCount\": ") + count);
    CHECK(AskOne(device, kConvolution).find("died") == std::string::npos);
  }
}

TEST_CASE("processes share the answers that are kept, also while they are written") {
  const Folder folder;
  const std::vector<Plan> plans = ReadPlans(MEMMODEL_TEST_DATA "/h200_plans.txt");
  const std::vector<Plan> some(plans.begin(), plans.begin() + 12);
  Environment environment = OnDevice(DeviceFile("h200"));
  const std::string right = InProcess(kStandIns, environment, [&] { return AskAll(some); });
  environment["MEMMODEL_VGPU_CACHE"] = folder.path;
  // A process beside this one, in the other order.
  const pid_t other = fork();
  if (other == 0) {
    const std::vector<Plan> backwards(some.rbegin(), some.rend());
    const std::string text = InProcess(kStandIns, environment, [&] { return AskAll(backwards); });
    _exit(text.find("died") == std::string::npos ? 0 : 1);
  }
  REQUIRE(other > 0);
  CHECK(InProcess(kStandIns, environment, [&] { return AskAll(some); }) == right);
  int status = -1;
  CHECK(waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  CHECK_FALSE(std::filesystem::is_empty(folder.path));
  // One that comes later, from what was kept.
  CHECK(InProcess(kStandIns, environment, [&] { return AskAll(some); }) == right);
}
