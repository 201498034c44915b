#include "src/devices/device_file.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace memmodel {
namespace {

const std::string kFolder = std::string(MEMMODEL_SOURCE_DIR) + "/data/devices/";

std::string H200() {
  std::ifstream file(kFolder + "h200.json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The message that `text` ends in; empty if it is a good device file.
std::string Complaint(const std::string& text) {
  const Result<DeviceSpec> spec = ParseDeviceFile(text, "x.json");
  if (spec.ok()) return "";
  CHECK(spec.status().code() == StatusCode::kBadInput);
  CHECK(spec.status().message().find('\n') == std::string::npos);
  CHECK(spec.status().message().find("x.json") != std::string::npos);
  return spec.status().message();
}

bool Says(const std::string& text, const std::string& words) {
  const std::string complaint = Complaint(text);
  INFO(complaint);
  return complaint.find(words) != std::string::npos;
}

// torch.cuda.get_device_properties and cudaDeviceGetAttribute on an NVIDIA H200.
TEST_CASE("the H200's file holds what the hardware says") {
  const Result<DeviceSpec> spec = ReadDeviceFile(kFolder + "h200.json");
  REQUIRE(spec.ok());
  CHECK(spec->device_name == "NVIDIA H200");
  CHECK(spec->total_bytes == 150109880320);
  CHECK(spec->ComputeCapability() == 90);
  CHECK(spec->Get("multiProcessorCount") == 132);
  CHECK(spec->Get("maxThreadsDim", 2) == 64);
  CHECK(spec->Get("l2CacheSize") == 62914560);
  CHECK(spec->Get("sharedMemPerBlockOptin") == 232448);
  CHECK(spec->Get("no such field") == 0);
  CHECK(spec->Get("maxThreadsDim", 3) == 0);
}

TEST_CASE("every file of data/devices is a device") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    // memory_classes.json names devices and is none.
    if (entry.path().extension() != ".json" || entry.path().stem() == "memory_classes") continue;
    ++files;
    const Result<DeviceSpec> spec = ReadDeviceFile(entry.path().string());
    INFO(entry.path().string(), spec.ok() ? "" : spec.status().message());
    CHECK(spec.ok());
  }
  CHECK(files > 0);
}

TEST_CASE("hostile files end in one message") {
  const std::string good = H200();
  CHECK(Complaint(good).empty());
  CHECK(Says("", "not valid JSON"));
  for (const std::size_t length : {1, 10, 100, 500, 1000, 2000}) {
    CHECK(Says(good.substr(0, length), "not valid JSON"));
  }
  CHECK(Says(std::string(100000, '['), "not valid JSON"));
  CHECK(Says("[]", "not a JSON object"));
  CHECK(Says("{}", "schema_version"));
  CHECK(Says(Replaced(good, "\"schema_version\": 1", "\"schema_version\": 2"), "schema_version"));
  CHECK(Says(Replaced(good, "\"schema_version\": 1", "\"schema_version\": \"1\""),
             "schema_version"));
  CHECK(Says(Replaced(good, "\"NVIDIA H200\"", "7"), "device_name"));
  CHECK(Says(Replaced(good, "\"NVIDIA H200\"", "\"" + std::string(256, 'n') + "\""),
             "device_name"));
  for (const char* bytes : {"-1", "0", "1.5", "\"80G\"", "1e300", "99999999999999999999",
                            "1125899906842625", "null", "[150109880320]"}) {
    CHECK(Says(Replaced(good, "150109880320", bytes), "memory.total_bytes"));
  }
  CHECK(Says(Replaced(good, "150109880320", "1000"), "leaves nothing"));
  for (const char* count : {"0", "-132", "1.5", "\"132\"", "4294967296", "null", "[132]", "{}"}) {
    CHECK(Says(Replaced(good, "\"multiProcessorCount\": 132",
                        std::string("\"multiProcessorCount\": ") + count),
               "multiProcessorCount"));
  }
  CHECK(Says(Replaced(good, "\"multiProcessorCount\"", "\"multiProcesorCount\""),
             "multiProcesorCount"));
  CHECK(Says(Replaced(good, "\"multiProcessorCount\": 132,", ""), "multiProcessorCount"));
  CHECK(Says(Replaced(good, "[1024, 1024, 64]", "[1024, 1024]"), "maxThreadsDim"));
  CHECK(Says(Replaced(good, "[1024, 1024, 64]", "[1024, 1024, \"64\"]"), "maxThreadsDim"));
  CHECK(Says(Replaced(good, "[1024, 1024, 64]", "1024"), "maxThreadsDim"));
  CHECK(Says(Replaced(good, "\"warpSize\": 32", "\"warpSize\": 64"), "warpSize"));
  CHECK(Says(Replaced(good, "\"cuda\": {", "\"cuda\": [], \"other\": {"), "cuda"));
}

TEST_CASE("a missing file, a folder and a huge file end in a message") {
  CHECK_FALSE(ReadDeviceFile("/no/such/file.json").ok());
  CHECK_FALSE(ReadDeviceFile(kFolder).ok());
  CHECK_FALSE(ReadDeviceFile("/dev/zero").ok());
}

}  // namespace
}  // namespace memmodel
