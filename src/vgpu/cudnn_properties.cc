#include "src/vgpu/cudnn_properties.h"

#include <nlohmann/json.hpp>

namespace memmodel::vgpu {

std::string CudnnDeviceProperties(const DeviceSpec& spec) {
  const auto at = [&spec](const char* field, std::size_t i = 0) { return spec.Get(field, i); };
  nlohmann::json json;
  json["maxGridSize"] = {at("maxGridSize", 0), at("maxGridSize", 1), at("maxGridSize", 2)};
  json["maxBlockSize"] = {at("maxThreadsDim", 0), at("maxThreadsDim", 1), at("maxThreadsDim", 2)};
  json["regsPerBlock"] = at("regsPerBlock");
  json["multiProcessorCount"] = at("multiProcessorCount");
  json["warpSize"] = at("warpSize");
  json["maxSharedMemoryPerBlock"] = at("sharedMemPerBlock");
  json["maxSharedMemoryPerBlockOptin"] = at("sharedMemPerBlockOptin");
  json["reservedSharedMemoryPerBlock"] = at("reservedSharedMemPerBlock");
  json["maxRegistersPerSM"] = at("regsPerMultiprocessor");
  json["maxCtasPerSM"] = at("maxBlocksPerMultiProcessor");
  json["maxThreadsPerBlock"] = at("maxThreadsPerBlock");
  json["maxThreadsPerSM"] = at("maxThreadsPerMultiProcessor");
  json["pciDeviceId"] = at("pciDeviceID");
  json["isTccDriver"] = at("tccDriver");
  json["supportCoopLaunch"] = at("cooperativeLaunch");
  json["totalGlobalMem"] = spec.total_bytes;
  json["smClockRateKHz"] = at("smClockRateKHz");
  json["memClockRateKHz"] = at("memClockRateKHz");
  json["l2CacheSize"] = at("l2CacheSize");
  json["cudaDeviceId"] = 0;
  json["deviceVer"] = 100 * at("major") + 10 * at("minor");
  json["driverVer"] = 13000;
  json["deviceName"] = spec.device_name;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::int64_t MaxActiveClusters(const DeviceSpec& spec, std::int64_t blocks) {
  const std::int64_t processors = spec.Get("multiProcessorCount");
  if (blocks < 1) return 0;
  if (static_cast<std::size_t>(blocks) <= spec.max_active_clusters.size()) {
    return spec.max_active_clusters[static_cast<std::size_t>(blocks) - 1];
  }
  if (blocks == 1) return processors;
  if (spec.Get("clusterLaunch") == 0) return 0;
  constexpr std::int64_t kProcessingCluster = 16;
  return processors / kProcessingCluster * (kProcessingCluster / blocks) +
         processors % kProcessingCluster / blocks;
}

}  // namespace memmodel::vgpu
