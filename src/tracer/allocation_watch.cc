// The one thing that Python's interfaces of the allocator do not give: a call at each
// block handed out. The virtual GPU keeps the bytes that the host copied to a small
// block; once the allocator gives that memory to another tensor they are nobody's,
// and a kernel that did not run would have written over them.
//
// Loaded by src/python into a process whose torch has the version that this file was
// compiled with: the layout of TraceEntry is not stable between versions.
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace {

using Forget = void (*)(std::uint64_t address, std::uint64_t size);

}  // namespace

// "2.11": the versions of torch that this can be used with.
extern "C" __attribute__((visibility("default"))) const char* memmodel_compiled_for() {
  static const std::string version =
      std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  return version.c_str();
}

// Starts watching. Returns 0; 1 if `torch_version` ("2.11.0+cu130") is of another
// torch than this was compiled with; 2 if there is no virtual GPU in the process.
extern "C" __attribute__((visibility("default"))) int memmodel_watch_allocations(
    const char* torch_version) {
  const std::string compiled = std::string(memmodel_compiled_for()) + ".";
  if (!std::string_view(torch_version).starts_with(compiled)) return 1;
  const auto forget = reinterpret_cast<Forget>(dlsym(RTLD_DEFAULT, "memmodel_vgpu_forget"));
  if (forget == nullptr) return 2;
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
      [forget](const c10::CachingDeviceAllocator::TraceEntry& entry) {
        if (entry.action_ == c10::CachingDeviceAllocator::TraceEntry::Action::ALLOC) {
          forget(entry.addr_, entry.size_);
        }
      });
  return 0;
}
