#include "src/calibrate/figures.h"

#include <doctest/doctest.h>

#include "src/devices/device_file.h"
#include "src/devices/reader.h"

using namespace memmodel;
using nlohmann::json;

namespace {

// As an NVIDIA H200 answered (driver 580.159.04), with the fields that must be there.
json H200() {
  return json::parse(R"({"device_name": "NVIDIA H200", "total_bytes": 150109880320,
    "driver_version": "580.159.04", "torch_version": "2.11.0+cu130", "cudnn_version": 91900,
    "max_active_clusters": [132, 66, 39, 30],
    "context": {"primary_bytes": 543162368, "first_kernel_bytes": 96468992,
      "cublas_handle_bytes": 69206016, "cudnn_handle_bytes": 8388608, "system_bytes": 9240576},
    "cuda": {"major": 9, "minor": 0, "multiProcessorCount": 132, "warpSize": 32,
      "maxThreadsPerBlock": 1024, "maxThreadsDim": [1024, 1024, 64],
      "maxGridSize": [2147483647, 65535, 65535], "maxThreadsPerMultiProcessor": 2048,
      "maxBlocksPerMultiProcessor": 32, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
      "sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448,
      "sharedMemPerMultiprocessor": 233472, "reservedSharedMemPerBlock": 1024,
      "l2CacheSize": 62914560, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000}})");
}

Device Shipped() {
  Result<Device> device = ReadDevice(MEMMODEL_SOURCE_DIR "/data/devices/h200.json");
  REQUIRE(device.ok());
  return *device;
}

}  // namespace

TEST_CASE("figures become a device file that the virtual GPU takes") {
  const Device shipped = Shipped();
  const Result<std::string> text = DeviceFileText(H200(), &shipped, "");
  REQUIRE_MESSAGE(text.ok(), text.status().message());
  const Result<DeviceSpec> spec = ParseDeviceFile(*text, "x");
  REQUIRE_MESSAGE(spec.ok(), spec.status().message());
  CHECK(spec->name == "h200");
  CHECK(spec->context.primary_bytes == 518U << 20);
  CHECK(spec->context.first_kernel_bytes == 92U << 20);
  CHECK(spec->max_active_clusters == std::vector<std::int64_t>{132, 66, 39, 30});
  const Result<Device> device = ParseDevice(*text, "x");
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  CHECK(device->context.base == 610 * kMiB);
  CHECK(device->context.above == 6 * kMiB);  // the shipped file's: not measured again
  for (const char* field : {"memory.total_bytes", "context.base_bytes", "cuda.l2CacheSize"}) {
    CHECK(device->SourceKind(field) == "measured");
  }
}

TEST_CASE("a GPU that the catalogue does not know gets a name of its own") {
  json figures = H200();
  figures["device_name"] = "NVIDIA GeForce RTX 4090 D";
  const Result<std::string> text = DeviceFileText(figures, nullptr, "");
  REQUIRE(text.ok());
  CHECK(ParseDevice(*text, "x")->name == "rtx4090d");
  CHECK(ParseDevice(*DeviceFileText(figures, nullptr, "mine"), "x")->name == "mine");
}

TEST_CASE("a context that could not be measured is the catalogue's, or there is no answer") {
  const Device shipped = Shipped();
  json figures = H200();
  figures["context"].erase("cublas_handle_bytes");
  figures.erase("max_active_clusters");
  const Result<std::string> text = DeviceFileText(figures, &shipped, "");
  REQUIRE(text.ok());
  const Result<Device> device = ParseDevice(*text, "x");
  CHECK(device->context.cublas_handle == 66 * kMiB);
  CHECK(ParseDeviceFile(*text, "x")->max_active_clusters.size() == 16);
  const Result<std::string> none = DeviceFileText(figures, nullptr, "");
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == StatusCode::kUnavailable);
  CHECK(none.status().message().find("NVML does not list this process") != std::string::npos);
}

TEST_CASE("measured contexts widen the range and never narrow it") {
  const Device shipped = Shipped();
  const std::string text = *DeviceFileText(H200(), &shipped, "");
  const Device same = *ParseDevice(*WithContextRange(text, 0, 2 * kMiB, "here"), "x");
  CHECK(same.context.below == 2 * kMiB);
  CHECK(same.context.above == 6 * kMiB);
  const Device wider = *ParseDevice(*WithContextRange(text, 4 * kMiB, 10 * kMiB, "here"), "x");
  CHECK(wider.context.below == 4 * kMiB);
  CHECK(wider.context.above == 10 * kMiB);
}

TEST_CASE("an answer of the child that is none is an error") {
  CHECK(
      ParseCalibrationAnswer(R"({"calibrated":1,"cudnn_version":91900,"plans":[[0,63]]})", 1).ok());
  CHECK_FALSE(
      ParseCalibrationAnswer(R"({"calibrated":1,"cudnn_version":91900,"plans":[]})", 1).ok());
  CHECK_FALSE(ParseCalibrationAnswer("nonsense", 0).ok());
  const Result<CalibrationAnswer> operators = ParseCalibrationAnswer(
      R"({"calibrated":1,"cudnn_version":91900,"plans":[],"operators":[[640,8],[],null]})", 0, 3);
  REQUIRE(operators.ok());
  CHECK(operators->operators[0] == std::vector<Bytes>{640, 8});
  CHECK(operators->operators[1] == std::vector<Bytes>{});
  CHECK_FALSE(operators->operators[2].has_value());
  CHECK_FALSE(ParseCalibrationAnswer(
                  R"({"calibrated":1,"cudnn_version":91900,"plans":[],"operators":[[]]})", 0, 3)
                  .ok());
  const Result<CalibrationAnswer> refused = ParseCalibrationAnswer(
      R"({"error":{"code":"unavailable","message":"no CUDA device found"}})", 0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("no CUDA device found") != std::string::npos);
}
