#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "memmodel/device.h"

using namespace memmodel;

namespace {

DeviceCatalogue Catalogue() {
  Result<DeviceCatalogue> catalogue =
      DeviceCatalogue::Read(std::string(MEMMODEL_SOURCE_DIR) + "/data/devices");
  REQUIRE_MESSAGE(catalogue.ok(), catalogue.status().message());
  return *std::move(catalogue);
}

}  // namespace

TEST_CASE("the catalogue holds the GPUs that people have, with a source for each figure") {
  const DeviceCatalogue catalogue = Catalogue();
  for (const char* name :
       {"h200", "t4", "v100-16", "v100-32", "a10", "a100-40", "a100-80", "a6000", "l4", "l40s",
        "h100-80", "b200", "rtx2080ti", "titan-rtx", "rtx3060", "rtx3080", "rtx3090", "rtx4060",
        "rtx4070", "rtx4080", "rtx4090", "rtx5090"}) {
    CAPTURE(name);
    const Result<Device> device = catalogue.Find(name);
    REQUIRE_MESSAGE(device.ok(), device.status().message());
    const std::set<std::string_view> kinds = {"measured", "published", "datasheet", "estimate"};
    for (const char* field : {"memory.total_bytes", "context.base_bytes", "cuda.major",
                              "cuda.multiProcessorCount", "cuda.l2CacheSize"}) {
      CAPTURE(field);
      CHECK(kinds.contains(device->SourceKind(field)));
    }
    for (const FigureSource& source : device->sources) CHECK(source.source.size() > 10);
    // What torch reports is a little less than what is sold: the driver keeps some.
    CHECK(device->total_bytes > device->memory_gb * kGiB * 9 / 10);
    CHECK(device->total_bytes <= device->memory_gb * kGiB);
  }
}

TEST_CASE("figures of GPUs that can be looked up") {
  const DeviceCatalogue catalogue = Catalogue();
  // Compute capability and SM count from NVIDIA's pages.
  const struct { const char* name; int major, minor; int sms; } facts[] = {
      {"t4", 7, 5, 40},       {"v100-32", 7, 0, 80},  {"a100-80", 8, 0, 108}, {"h100-80", 9, 0, 132},
      {"rtx3090", 8, 6, 82},  {"rtx4090", 8, 9, 128}, {"rtx5090", 12, 0, 170}, {"l4", 8, 9, 58},
      {"b200", 10, 0, 148},   {"rtx3060", 8, 6, 28},  {"rtx2080ti", 7, 5, 68}};
  for (const auto& fact : facts) {
    CAPTURE(fact.name);
    const Result<Device> device = catalogue.Find(fact.name);
    REQUIRE(device.ok());
    CHECK(device->major == fact.major);
    CHECK(device->minor == fact.minor);
    CHECK(device->multiprocessors == fact.sms);
  }
}

TEST_CASE("names are forgiving, and a wrong one finds the nearest") {
  const DeviceCatalogue catalogue = Catalogue();
  CHECK(catalogue.Find("RTX 4090")->name == "rtx4090");
  CHECK(catalogue.Find("NVIDIA GeForce RTX 3090")->name == "rtx3090");
  CHECK(catalogue.Find("h100")->name == "h100-80");
  const Result<Device> wrong = catalogue.Find("rtx3900");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.status().code() == StatusCode::kInvalidArgument);
  CHECK(wrong.status().message().find("did you mean 'rtx3090'") != std::string::npos);
  CHECK_FALSE(catalogue.Find("").ok());
}

TEST_CASE("a memory size stands for a card that PyTorch supports") {
  const DeviceCatalogue catalogue = Catalogue();
  CHECK(catalogue.OfMemory(24 * kGiB)->name == "rtx4090");
  CHECK(catalogue.OfMemory(16 * kGiB)->unsupported.empty());
  CHECK(catalogue.OfMemory(32 * kGiB)->name == "rtx5090");  // not the V100
  CHECK(catalogue.OfMemory(80 * kGiB)->name == "h100-80");
  CHECK(catalogue.OfMemory(1)->name == "rtx4060");
}

TEST_CASE("GPUs without kernels in this torch say what still has them") {
  const DeviceCatalogue catalogue = Catalogue();
  for (const Device& device : catalogue.devices()) {
    CAPTURE(device.name);
    CHECK(device.unsupported.empty() == (10 * device.major + device.minor >= 75));
  }
  CHECK(catalogue.Find("v100")->unsupported.find("cu126") != std::string::npos);
}

TEST_CASE("a catalogue that cannot be read is named") {
  CHECK(DeviceCatalogue::Read("/nowhere").status().code() == StatusCode::kUnavailable);
  const std::string folder = std::string(MEMMODEL_BINARY_DIR) + "/bad_devices";
  std::filesystem::create_directories(folder);
  for (const char* text :
       {"", "[]", "{}", R"({"schema_version": 99})", R"({"schema_version": 1, "name": "x"})"}) {
    CAPTURE(text);
    std::ofstream(folder + "/x.json") << text;
    const Result<DeviceCatalogue> catalogue = DeviceCatalogue::Read(folder);
    REQUIRE_FALSE(catalogue.ok());
    CHECK(catalogue.status().code() == StatusCode::kBadInput);
    CHECK(catalogue.status().message().find("x.json") != std::string::npos);
  }
}
