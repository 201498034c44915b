#include "src/step/nvml.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace memmodel::step {
namespace {

// nvmlProcessInfo_t of nvml.h, versions 2 and 3 of the query.
struct Process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

// The library, initialised once; null if there is none.
void* Nvml() {
  static void* library = [] {
    void* opened = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (opened == nullptr) return opened;
    const auto start = reinterpret_cast<int (*)()>(dlsym(opened, "nvmlInit_v2"));
    return start != nullptr && start() == 0 ? opened : nullptr;
  }();
  return library;
}

template <typename Function>
Function* Find(const char* name) {
  return Nvml() == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(Nvml(), name));
}

}  // namespace

std::optional<Bytes> NvmlProcessBytes() {
  std::array<char, 32> bus{};
  auto* const by_bus = Find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  auto* const list =
      Find<int(void*, unsigned*, Process*)>("nvmlDeviceGetComputeRunningProcesses_v3");
  void* device = nullptr;
  if (by_bus == nullptr || list == nullptr ||
      cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0) != cudaSuccess ||
      by_bus(bus.data(), &device) != 0) {
    return std::nullopt;
  }
  std::vector<Process> processes(1024);
  auto count = static_cast<unsigned>(processes.size());
  if (list(device, &count, processes.data()) != 0) return std::nullopt;
  constexpr unsigned long long kNotAvailable = ~0ULL;
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].pid == static_cast<unsigned>(getpid()) &&
        processes[i].bytes != kNotAvailable) {
      return static_cast<Bytes>(processes[i].bytes);
    }
  }
  return std::nullopt;
}

std::string NvmlDriverVersion() {
  std::array<char, 96> version{};
  auto* const ask = Find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  return ask != nullptr && ask(version.data(), version.size()) == 0 ? version.data() : "";
}

}  // namespace memmodel::step
