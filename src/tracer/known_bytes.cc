#include "src/tracer/known_bytes.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include "src/vgpu/control.h"

namespace memmodel::tracer {

void ForgetReusedBytes() {
  static const auto forget = reinterpret_cast<decltype(&memmodel_vgpu_forget)>(
      dlsym(RTLD_DEFAULT, "memmodel_vgpu_forget"));
  if (forget == nullptr) return;
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const Entry& entry) {
    if (entry.action_ == Entry::Action::ALLOC) forget(entry.addr_, entry.size_);
  });
}

}  // namespace memmodel::tracer
