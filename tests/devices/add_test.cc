#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "memmodel/device.h"

namespace fs = std::filesystem;
using namespace memmodel;

namespace {

// A user's data folder that goes at the end of a test.
struct UserFolder {
  fs::path path;
  UserFolder() {
    std::string name = fs::temp_directory_path() / "memmodel-user-XXXXXX";
    path = mkdtemp(name.data());
    setenv("MEMMODEL_USER_DATA", path.c_str(), 1);
    setenv("MEMMODEL_DATA", MEMMODEL_SOURCE_DIR "/data", 1);
  }
  ~UserFolder() {
    fs::remove_all(path);
    unsetenv("MEMMODEL_USER_DATA");
    unsetenv("MEMMODEL_DATA");
  }
};

std::string H200() {
  std::ifstream file(MEMMODEL_SOURCE_DIR "/data/devices/h200.json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string With(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a device that is added is found, beside those that are shipped") {
  const UserFolder folder;
  const std::string text =
      With(With(H200(), "\"h200\"", "\"mycard\""), "\"NVIDIA H200\"", "\"My Card\"");
  const Result<Device> added = AddDevice(text, "mycard.json");
  REQUIRE_MESSAGE(added.ok(), added.status().message());
  CHECK(added->path == folder.path / "devices/mycard.json");
  const Result<DeviceCatalogue> all = DeviceCatalogue::ReadAll();
  REQUIRE_MESSAGE(all.ok(), all.status().message());
  CHECK(all->Find("My Card")->path == added->path);
  CHECK(all->Find("h200")->path == MEMMODEL_SOURCE_DIR "/data/devices/h200.json");
  REQUIRE(all->FindDeviceName("My Card") != nullptr);
  CHECK(all->FindDeviceName("Another") == nullptr);
}

TEST_CASE("the user's own file of a shipped device comes before the shipped one") {
  const UserFolder folder;
  REQUIRE(AddDevice(With(H200(), "150109880320", "150000000000"), "x").ok());
  const Result<DeviceCatalogue> all = DeviceCatalogue::ReadAll();
  REQUIRE(all.ok());
  CHECK(all->Find("h200")->total_bytes == 150000000000);
  // Its plans are looked for beside it: the shipped ones are there.
  CHECK(fs::file_size(folder.path / "cudnn/h200.plans") ==
        fs::file_size(MEMMODEL_SOURCE_DIR "/data/cudnn/h200.plans"));
  int found = 0;
  for (const Device& device : all->devices()) found += device.name == "h200";
  CHECK(found == 1);
}

TEST_CASE("a device that no prediction could use is refused, and nothing is written") {
  const UserFolder folder;
  for (const auto& [text, words] : {
           std::pair(With(H200(), "\"warpSize\": 32,", ""), "lacks cuda.warpSize"),
           std::pair(With(H200(), "\"warpSize\"", "\"wrapSize\""), "unknown field cuda.wrapSize"),
           std::pair(With(H200(), "\"h200\"", "\"../h200\""), "may hold lower-case letters"),
           std::pair(With(H200(), "\"total_bytes\": 150109880320", "\"total_bytes\": 1"),
                     "context.base_bytes"),
           std::pair(std::string("{"), "no JSON object"),
       }) {
    const Result<Device> added = AddDevice(text, "mine.json");
    REQUIRE_FALSE(added.ok());
    CHECK_MESSAGE(added.status().message().find(words) != std::string::npos,
                  added.status().message());
    CHECK(added.status().message().find("mine.json") != std::string::npos);
    CHECK(added.status().code() == StatusCode::kBadInput);
  }
  CHECK_FALSE(fs::exists(folder.path / "devices"));
}

TEST_CASE("a damaged file among the user's devices is named") {
  const UserFolder folder;
  fs::create_directories(folder.path / "devices");
  std::ofstream(folder.path / "devices/broken.json") << "{\"schema_version\": 1}";
  const Result<DeviceCatalogue> all = DeviceCatalogue::ReadAll();
  REQUIRE_FALSE(all.ok());
  CHECK(all.status().message().find("broken.json") != std::string::npos);
}
