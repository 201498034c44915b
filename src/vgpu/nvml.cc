// libnvidia-ml: the virtual devices as nvidia-smi would show them, with this
// process as their only user. The functions that monitoring code asks for are
// answered; figures that only a running GPU has (temperature, power, utilisation)
// are not supported.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "src/vgpu/device_identity.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

// From NVML's reference (nvml.h), which few build machines have.
enum nvmlReturn_t {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
};

struct nvmlMemory_t {
  unsigned long long total, free, used;
};
struct nvmlMemory_v2_t {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long used;
};
struct nvmlProcessInfo_t {  // versions 2 and 3
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct nvmlPciInfo_t {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct NvmlDevice {
  int index = 0;
};

// The driver that the measured figures come from.
constexpr char kDriverVersion[] = "580.159.04";
constexpr char kNvmlVersion[] = "13.580.159.04";

NvmlDevice* Handle(int index) {
  static std::array<NvmlDevice, kMostDevices> devices;
  NvmlDevice* device = &devices[static_cast<std::size_t>(index)];
  device->index = index;
  return device;
}

int Count() { return State::Get().device_count(); }
bool Valid(int index) { return index >= 0 && index < Count(); }

nvmlReturn_t Text(const std::string& text, char* to, unsigned length) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (length < text.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

std::string UuidText(int index) {
  const Uuid uuid = DeviceUuid(index);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid[i]);
    text += digits;
  }
  return text;
}

// NVML writes the domain with eight digits.
std::string BusId(int index) { return "0000" + DevicePciBusId(index); }

std::uint64_t UsedByProcess(int index) {
  return State::Get().UsedBytes(index) + State::Get().ContextBytes(index);
}

template <typename Info>
nvmlReturn_t Processes(NvmlDevice* device, unsigned* count, Info* infos) {
  if (device == nullptr || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = *count;
  *count = 1;
  if (room < 1 || infos == nullptr) return NVML_ERROR_INSUFFICIENT_SIZE;
  Info info = {};
  info.pid = static_cast<unsigned>(getpid());
  info.used = UsedByProcess(device->index);
  infos[0] = info;
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {
#pragma GCC visibility push(default)

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
nvmlReturn_t nvmlInit() { return NVML_SUCCESS; }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }

const char* nvmlErrorString(nvmlReturn_t error) {
  switch (error) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
  }
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return Text(kDriverVersion, version, length);
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return Text(kNvmlVersion, version, length);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = CUDA_VERSION;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(Count());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice** device) {
  if (device == nullptr || !Valid(static_cast<int>(index))) return NVML_ERROR_INVALID_ARGUMENT;
  *device = Handle(static_cast<int>(index));
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice** device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice** device) {
  if (uuid == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < Count(); ++i) {
    if (UuidText(i) == uuid) return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(i), device);
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, NvmlDevice** device) {
  if (bus_id == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < Count(); ++i) {
    if (BusId(i) == bus_id || DevicePciBusId(i) == bus_id) {
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(i), device);
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(NvmlDevice* device, unsigned* index) {
  if (device == nullptr || index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned>(device->index);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(NvmlDevice* device, unsigned* index) {
  return nvmlDeviceGetIndex(device, index);
}
nvmlReturn_t nvmlDeviceGetName(NvmlDevice* device, char* name, unsigned length) {
  return device == nullptr ? NVML_ERROR_INVALID_ARGUMENT
                           : Text(State::Get().spec().device_name, name, length);
}
nvmlReturn_t nvmlDeviceGetUUID(NvmlDevice* device, char* uuid, unsigned length) {
  return device == nullptr ? NVML_ERROR_INVALID_ARGUMENT
                           : Text(UuidText(device->index), uuid, length);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(NvmlDevice* device, nvmlPciInfo_t* info) {
  if (device == nullptr || info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const DeviceSpec& spec = State::Get().spec();
  *info = {};
  std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%s",
                DevicePciBusId(device->index).c_str());
  std::snprintf(info->bus_id, sizeof info->bus_id, "%s", BusId(device->index).c_str());
  info->domain = static_cast<unsigned>(spec.Get("pciDomainID"));
  info->bus = static_cast<unsigned>(spec.Get("pciBusID") + device->index);
  info->device = static_cast<unsigned>(spec.Get("pciDeviceID"));
  info->pci_device_id = static_cast<unsigned>(spec.Get("gpuPciDeviceID"));
  info->pci_subsystem_id = static_cast<unsigned>(spec.Get("gpuPciSubsystemID"));
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(NvmlDevice* device, nvmlPciInfo_t* info) {
  return nvmlDeviceGetPciInfo_v3(device, info);
}

// NVML's total is somewhat larger than CUDA's by what the driver keeps; the
// device file knows CUDA's, which stands in here.
nvmlReturn_t nvmlDeviceGetMemoryInfo(NvmlDevice* device, nvmlMemory_t* memory) {
  if (device == nullptr || memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = State::Get().TotalBytes(device->index);
  memory->free = State::Get().FreeBytes(device->index);
  memory->used = memory->total - memory->free;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(NvmlDevice* device, nvmlMemory_v2_t* memory) {
  if (device == nullptr || memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = State::Get().TotalBytes(device->index);
  memory->free = State::Get().FreeBytes(device->index);
  memory->used = std::min<unsigned long long>(UsedByProcess(device->index),
                                              memory->total - memory->free);
  memory->reserved = memory->total - memory->free - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice* device, unsigned* count,
                                                     nvmlProcessInfo_t* infos) {
  return Processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(NvmlDevice* device, unsigned* count,
                                                     nvmlProcessInfo_t* infos) {
  return Processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(NvmlDevice* device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return Processes(device, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(NvmlDevice*, unsigned* count,
                                                      nvmlProcessInfo_t*) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(NvmlDevice* device, int* major, int* minor) {
  if (device == nullptr || major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = static_cast<int>(State::Get().spec().Get("major"));
  *minor = static_cast<int>(State::Get().spec().Get("minor"));
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(NvmlDevice* device, unsigned* bits) {
  if (device == nullptr || bits == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *bits = static_cast<unsigned>(State::Get().spec().Get("memoryBusWidth"));
  return NVML_SUCCESS;
}

// Utilisation of a device on which nothing runs.
nvmlReturn_t nvmlDeviceGetUtilizationRates(NvmlDevice* device, unsigned* gpu_and_memory) {
  if (device == nullptr || gpu_and_memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  gpu_and_memory[0] = 0;
  gpu_and_memory[1] = 0;
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
}  // extern "C"
