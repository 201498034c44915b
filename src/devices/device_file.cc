#include "src/devices/device_file.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLargestFile = std::size_t{1} << 20;
// No GPU has a PiB of memory; a larger figure is a mistake.
constexpr std::uint64_t kLargestMemory = std::uint64_t{1} << 50;

struct Field {
  std::string_view name;
  std::size_t length;
  bool required;
};

// cudaDeviceProp of CUDA 13 (driver_types.h) without name, uuid, luid and
// totalGlobalMem, and five device attributes that were in it before.
constexpr Field kFields[] = {
    {"major", 1, true},
    {"minor", 1, true},
    {"multiProcessorCount", 1, true},
    {"warpSize", 1, true},
    {"maxThreadsPerBlock", 1, true},
    {"maxThreadsDim", 3, true},
    {"maxGridSize", 3, true},
    {"maxThreadsPerMultiProcessor", 1, true},
    {"maxBlocksPerMultiProcessor", 1, true},
    {"regsPerBlock", 1, true},
    {"regsPerMultiprocessor", 1, true},
    {"sharedMemPerBlock", 1, true},
    {"sharedMemPerBlockOptin", 1, true},
    {"sharedMemPerMultiprocessor", 1, true},
    {"reservedSharedMemPerBlock", 1, true},
    {"l2CacheSize", 1, true},
    {"smClockRateKHz", 1, true},
    {"memClockRateKHz", 1, true},
    {"luidDeviceNodeMask", 1, false},
    {"memPitch", 1, false},
    {"totalConstMem", 1, false},
    {"textureAlignment", 1, false},
    {"texturePitchAlignment", 1, false},
    {"integrated", 1, false},
    {"canMapHostMemory", 1, false},
    {"maxTexture1D", 1, false},
    {"maxTexture1DMipmap", 1, false},
    {"maxTexture2D", 2, false},
    {"maxTexture2DMipmap", 2, false},
    {"maxTexture2DLinear", 3, false},
    {"maxTexture2DGather", 2, false},
    {"maxTexture3D", 3, false},
    {"maxTexture3DAlt", 3, false},
    {"maxTextureCubemap", 1, false},
    {"maxTexture1DLayered", 2, false},
    {"maxTexture2DLayered", 3, false},
    {"maxTextureCubemapLayered", 2, false},
    {"maxSurface1D", 1, false},
    {"maxSurface2D", 2, false},
    {"maxSurface3D", 3, false},
    {"maxSurface1DLayered", 2, false},
    {"maxSurface2DLayered", 3, false},
    {"maxSurfaceCubemap", 1, false},
    {"maxSurfaceCubemapLayered", 2, false},
    {"surfaceAlignment", 1, false},
    {"concurrentKernels", 1, false},
    {"ECCEnabled", 1, false},
    {"pciBusID", 1, false},
    {"pciDeviceID", 1, false},
    {"pciDomainID", 1, false},
    {"tccDriver", 1, false},
    {"asyncEngineCount", 1, false},
    {"unifiedAddressing", 1, false},
    {"memoryBusWidth", 1, false},
    {"persistingL2CacheMaxSize", 1, false},
    {"streamPrioritiesSupported", 1, false},
    {"globalL1CacheSupported", 1, false},
    {"localL1CacheSupported", 1, false},
    {"managedMemory", 1, false},
    {"isMultiGpuBoard", 1, false},
    {"multiGpuBoardGroupID", 1, false},
    {"hostNativeAtomicSupported", 1, false},
    {"pageableMemoryAccess", 1, false},
    {"concurrentManagedAccess", 1, false},
    {"computePreemptionSupported", 1, false},
    {"canUseHostPointerForRegisteredMem", 1, false},
    {"cooperativeLaunch", 1, false},
    {"pageableMemoryAccessUsesHostPageTables", 1, false},
    {"directManagedMemAccessFromHost", 1, false},
    {"accessPolicyMaxWindowSize", 1, false},
    {"hostRegisterSupported", 1, false},
    {"sparseCudaArraySupported", 1, false},
    {"hostRegisterReadOnlySupported", 1, false},
    {"timelineSemaphoreInteropSupported", 1, false},
    {"memoryPoolsSupported", 1, false},
    {"gpuDirectRDMASupported", 1, false},
    {"gpuDirectRDMAFlushWritesOptions", 1, false},
    {"gpuDirectRDMAWritesOrdering", 1, false},
    {"memoryPoolSupportedHandleTypes", 1, false},
    {"deferredMappingCudaArraySupported", 1, false},
    {"ipcEventSupported", 1, false},
    {"clusterLaunch", 1, false},
    {"unifiedFunctionPointers", 1, false},
    {"deviceNumaConfig", 1, false},
    {"deviceNumaId", 1, false},
    {"mpsEnabled", 1, false},
    {"hostNumaId", 1, false},
    {"gpuPciDeviceID", 1, false},
    {"gpuPciSubsystemID", 1, false},
    {"hostNumaMultinodeIpcSupported", 1, false},
    {"singleToDoublePrecisionPerfRatio", 1, false},
    {"kernelExecTimeoutEnabled", 1, false},
    {"computeMode", 1, false},
};

const Field* FindField(std::string_view name) {
  for (const Field& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

// Reads one file; every method says in `error` what is wrong and returns false.
class Parser {
 public:
  Parser(const Json& root, std::string path) : root_(root), path_(std::move(path)) {}

  Result<DeviceSpec> Parse() {
    DeviceSpec spec;
    if (!root_.is_object()) return Bad("is not a JSON object");
    if (const auto version = root_.find("schema_version");
        version == root_.end() || !version->is_number_integer() || *version != 1) {
      return Bad("has no schema_version 1, the only one this version reads");
    }
    if (!Text(root_, "name", &spec.name) || !Text(root_, "device_name", &spec.device_name) ||
        !Memory("memory", "total_bytes", 1, &spec.total_bytes) || !Context(&spec) || !Cuda(&spec) ||
        !Occupancy(&spec)) {
      return Bad(error_);
    }
    return spec;
  }

 private:
  Status Bad(const std::string& what) const {
    return Status::BadInput("device file " + path_ + " " + what);
  }
  bool Fail(std::string what) {
    error_ = std::move(what);
    return false;
  }

  bool Text(const Json& object, const char* key, std::string* value) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) {
      return Fail(std::string("has no text \"") + key + "\"");
    }
    *value = found->get<std::string>();
    // 255: cudaDeviceProp.name holds 256 characters with its end.
    if (value->empty() || value->size() > 255) {
      return Fail(std::string("has a \"") + key + "\" that is empty or longer than 255 characters");
    }
    return true;
  }

  bool Memory(const char* object, const char* key, std::uint64_t least, std::uint64_t* value) {
    const std::string name = std::string(object) + "." + key;
    const auto outer = root_.find(object);
    if (outer == root_.end() || !outer->is_object() || !outer->contains(key)) {
      return Fail("has no " + name);
    }
    const Json& number = (*outer)[key];
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() < least ||
        number.get<std::uint64_t>() > kLargestMemory) {
      return Fail("has a " + name + " that is not a whole number of bytes from " +
                  std::to_string(least) + " to 2^50");
    }
    *value = number.get<std::uint64_t>();
    return true;
  }

  bool Optional(const char* key, std::uint64_t* value) {
    const auto context = root_.find("context");
    return context == root_.end() || !context->is_object() || !context->contains(key) ||
           Memory("context", key, 0, value);
  }

  bool Context(DeviceSpec* spec) {
    ContextCost& cost = spec->context;
    std::uint64_t base = 0;
    if (!Memory("context", "base_bytes", 0, &base) ||
        !Optional("first_kernel_bytes", &cost.first_kernel_bytes) ||
        !Optional("cublas_handle_bytes", &cost.cublas_handle_bytes) ||
        !Optional("cudnn_handle_bytes", &cost.cudnn_handle_bytes) ||
        !Optional("system_bytes", &cost.system_bytes)) {
      return false;
    }
    if (cost.first_kernel_bytes > base) {
      return Fail("has a context.first_kernel_bytes above context.base_bytes, which contains it");
    }
    cost.primary_bytes = base - cost.first_kernel_bytes;
    if (base + cost.system_bytes >= spec->total_bytes) {
      return Fail("has a context.base_bytes that leaves nothing of memory.total_bytes");
    }
    return true;
  }

  bool Number(const Json& number, const std::string& name, bool positive,
              std::vector<std::int64_t>* values) {
    if (!number.is_number_integer() ||
        (number.is_number_unsigned() &&
         number.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})) {
      return Fail("has a cuda." + name + " that is not a whole number");
    }
    const auto value = number.get<std::int64_t>();
    const bool wide = name == "memPitch" || name == "gpuPciDeviceID" || name == "gpuPciSubsystemID";
    if (value > (wide ? std::int64_t{0xffffffff} : std::numeric_limits<std::int32_t>::max()) ||
        value < std::numeric_limits<std::int32_t>::min() || (positive && value < 1)) {
      return Fail("has a cuda." + name + " that is out of range: " + std::to_string(value));
    }
    values->push_back(value);
    return true;
  }

  bool Cuda(DeviceSpec* spec) {
    const auto cuda = root_.find("cuda");
    if (cuda == root_.end() || !cuda->is_object()) return Fail("has no object \"cuda\"");
    for (const auto& [name, value] : cuda->items()) {
      const Field* field = FindField(name);
      if (field == nullptr) return Fail("has an unknown field cuda." + name);
      // Zero is possible only for what may be left out, and for the minor version.
      const bool positive =
          field->required && name != "minor" && name != "reservedSharedMemPerBlock";
      std::vector<std::int64_t> values;
      if (field->length == 1) {
        if (!Number(value, name, positive, &values)) return false;
      } else {
        if (!value.is_array() || value.size() != field->length) {
          return Fail("has a cuda." + name + " that is not an array of " +
                      std::to_string(field->length) + " numbers");
        }
        for (const Json& element : value) {
          if (!Number(element, name, positive, &values)) return false;
        }
      }
      spec->cuda.emplace(name, std::move(values));
    }
    for (const Field& field : kFields) {
      if (field.required && !spec->cuda.contains(field.name)) {
        return Fail("lacks cuda." + std::string(field.name));
      }
    }
    if (spec->Get("warpSize") != 32) return Fail("has a cuda.warpSize other than 32");
    return true;
  }

  bool Occupancy(DeviceSpec* spec) {
    const auto occupancy = root_.find("occupancy");
    if (occupancy == root_.end()) return true;
    constexpr std::size_t kMost = 16;  // blocks of a cluster
    const auto clusters = occupancy->find("max_active_clusters");
    if (clusters == occupancy->end() || !clusters->is_array() || clusters->size() > kMost) {
      return Fail("has an occupancy without an array max_active_clusters of up to 16 numbers");
    }
    for (const Json& number : *clusters) {
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() > 65536) {
        return Fail("has an occupancy.max_active_clusters that is not a count of clusters");
      }
      spec->max_active_clusters.push_back(number.get<std::int64_t>());
    }
    return true;
  }

  const Json& root_;
  const std::string path_;
  std::string error_;
};

}  // namespace

std::int64_t DeviceSpec::Get(std::string_view field, std::size_t index) const {
  const auto found = cuda.find(field);
  return found == cuda.end() || index >= found->second.size() ? 0 : found->second[index];
}

int DeviceSpec::ComputeCapability() const {
  return static_cast<int>(10 * Get("major") + Get("minor"));
}

std::size_t DeviceFieldLength(std::string_view field) {
  const Field* found = FindField(field);
  return found == nullptr ? 0 : found->length;
}

Result<DeviceSpec> ParseDeviceFile(std::string_view text, const std::string& path) {
  const Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    return Status::BadInput("device file " + path + " is not valid JSON");
  }
  return Parser(root, path).Parse();
}

Result<DeviceSpec> ReadDeviceFile(const std::string& path) {
  Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  return ParseDeviceFile(*text, path);
}

}  // namespace memmodel
