#include "src/step/device.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>

#include "src/step/nvml.h"
#include "src/vgpu/control.h"

namespace memmodel::step {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr c10::DeviceIndex kDevice = 0;

// Highest values so far: peaks are reset at the start of each phase.
struct Highest {
  Bytes allocated = 0;
  Bytes reserved = 0;
  Bytes active = 0;
  Bytes requested = 0;
  std::int64_t segments = 0;
};

Highest& TheHighest() {
  static Highest highest;
  return highest;
}

c10::CachingDeviceAllocator::DeviceStats Collect() {
  const auto stats = allocator::getDeviceStats(kDevice);
  Highest& highest = TheHighest();
  highest.allocated = std::max<Bytes>(highest.allocated, stats.allocated_bytes[0].peak);
  highest.reserved = std::max<Bytes>(highest.reserved, stats.reserved_bytes[0].peak);
  highest.active = std::max<Bytes>(highest.active, stats.active_bytes[0].peak);
  highest.requested = std::max<Bytes>(highest.requested, stats.requested_bytes[0].peak);
  highest.segments = std::max(highest.segments, stats.segment[0].peak);
  return stats;
}

template <typename Fn>
Fn Find(const char* name) {
  return reinterpret_cast<Fn>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void StartDevice(const Job& job, const Probe& probe) {
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  unsetenv("PYTORCH_ALLOC_CONF");
  if (!job.alloc_conf.empty()) setenv("PYTORCH_CUDA_ALLOC_CONF", job.alloc_conf.c_str(), 1);
  if (job.virtual_device) {
    const auto set = Find<decltype(&memmodel_vgpu_set_memory)>("memmodel_vgpu_set_memory");
    if (set != nullptr) {
      set(kDevice, static_cast<std::uint64_t>(probe.total_bytes),
          static_cast<std::uint64_t>(probe.context_bytes));
    }
    const auto fastest = Find<decltype(&memmodel_vgpu_largest_workspace_fastest)>(
        "memmodel_vgpu_largest_workspace_fastest");
    if (fastest != nullptr) fastest(probe.largest_workspace_fastest ? 1 : 0);
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  TORCH_CHECK(c10::cuda::device_count() > 0, "no CUDA device found");
  at::globalContext().setBenchmarkCuDNN(job.cudnn_benchmark);
  if (probe.allocator_limit_bytes > 0) {
    // torch.cuda.set_per_process_memory_fraction(min(1, limit / total))
    const double total =
        static_cast<double>(at::cuda::getCurrentDeviceProperties()->totalGlobalMem);
    allocator::setMemoryFraction(
        std::min(1.0, static_cast<double>(probe.allocator_limit_bytes) / total), kDevice);
  }
}

void ReadPeaks(ProbeAnswer* answer) {
  if (!allocator::get()->initialized()) return;
  const auto stats = Collect();
  const Highest& highest = TheHighest();
  answer->peak_allocated = highest.allocated;
  answer->peak_reserved = highest.reserved;
  answer->peak_active = highest.active;
  answer->peak_requested = highest.requested;
  answer->segments = highest.segments;
  answer->retries = stats.num_alloc_retries;
  answer->ooms = stats.num_ooms;
}

PhaseFigures ReadPhase() {
  const auto stats = Collect();
  allocator::resetPeakStats(kDevice);
  return {stats.allocated_bytes[0].peak, stats.allocated_bytes[0].current};
}

Bytes ReservedBytes() { return allocator::getDeviceStats(kDevice).reserved_bytes[0].current; }

std::string DeviceReport() {
  const auto report = Find<decltype(&memmodel_vgpu_report_json)>("memmodel_vgpu_report_json");
  if (report != nullptr) return report();
  const std::optional<Bytes> used = NvmlProcessBytes();
  if (!used) return "";
  return R"({"measured_bytes":)" + std::to_string(*used - ReservedBytes()) + "}";
}

std::string TorchVersion() {
  // The wheels' local version: 2.11.0 built for CUDA 13.0 is 2.11.0+cu130.
  const long cuda = at::detail::getCUDAHooks().versionCUDART();
  return std::string(TORCH_VERSION) + "+cu" + std::to_string(cuda / 1000) +
         std::to_string(cuda / 10 % 100);
}

std::int64_t CudnnVersion() { return at::Context::versionCuDNN(); }

}  // namespace memmodel::step
