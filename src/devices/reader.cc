#include "src/devices/reader.h"

#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

using nlohmann::json;

constexpr int kSchemaVersion = 1;
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

Result<json> ParseJson(std::string_view text, const std::string& path) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return Status::BadInput(path + " is no JSON object");
  const json version = value.value("schema_version", json());
  if (!version.is_number_integer() || version.get<int>() < 1) {
    return Status::BadInput(path + " has no schema_version");
  }
  if (version.get<int>() > kSchemaVersion) {
    return Status::BadInput(path + " has schema_version " + version.dump() +
                            ", this program reads versions up to " +
                            std::to_string(kSchemaVersion));
  }
  return value;
}

std::optional<Bytes> OptionalBytes(const json& object, const char* key) {
  return object.contains(key) ? std::optional<Bytes>(object.at(key).get<Bytes>()) : std::nullopt;
}

Device Parse(const json& file) {
  Device device;
  device.name = file.at("name").get<std::string>();
  device.device_name = file.at("device_name").get<std::string>();
  device.aliases = file.value("aliases", std::vector<std::string>());
  device.provenance = file.at("provenance").get<std::string>();
  const json& memory = file.at("memory");
  device.total_bytes = memory.at("total_bytes").get<Bytes>();
  device.memory_gb = memory.value("sold_gb", (device.total_bytes + kGiB / 2) / kGiB);
  const json& context = file.at("context");
  device.context.base = context.at("base_bytes").get<Bytes>();
  device.context.cublas_handle = OptionalBytes(context, "cublas_handle_bytes");
  device.context.cudnn_handle = OptionalBytes(context, "cudnn_handle_bytes");
  device.context.system = OptionalBytes(context, "system_bytes");
  device.context.below = OptionalBytes(context, "below_bytes");
  device.context.above = OptionalBytes(context, "above_bytes");
  const json& cuda = file.at("cuda");
  device.major = cuda.at("major").get<int>();
  device.minor = cuda.at("minor").get<int>();
  device.multiprocessors = cuda.at("multiProcessorCount").get<std::int64_t>();
  device.l2_bytes = cuda.at("l2CacheSize").get<std::int64_t>();
  device.memory_bus_bits = cuda.value("memoryBusWidth", std::int64_t{0});
  device.unsupported = file.value("unsupported", "");
  for (const json& source : file.at("sources")) {
    device.sources.push_back({source.at("fields").get<std::vector<std::string>>(),
                              source.at("kind").get<std::string>(),
                              source.at("source").get<std::string>()});
  }
  return device;
}

}  // namespace

Result<Device> ReadDevice(const std::string& path) {
  Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  return ParseDevice(*text, path);
}

Result<Device> ParseDevice(std::string_view text, const std::string& path) {
  Result<json> file = ParseJson(text, path);
  if (!file.ok()) return file.status();
  try {
    Device device = Parse(*file);
    device.path = path;
    if (device.total_bytes <= 0 || device.context.base < 0 ||
        device.context.base >= device.total_bytes) {
      return Status::BadInput(path +
                              ": context.base_bytes must lie between 0 and "
                              "memory.total_bytes");
    }
    return device;
  } catch (const json::exception& error) {
    return Status::BadInput(path + " is no device file: " + error.what());
  }
}

Result<std::vector<std::string>> ReadPreferredDevices(const std::string& path) {
  Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  Result<json> file = ParseJson(*text, path);
  if (!file.ok()) return file.status();
  try {
    return file->at("preferred").get<std::vector<std::string>>();
  } catch (const json::exception& error) {
    return Status::BadInput(path + ": " + error.what());
  }
}

}  // namespace memmodel
