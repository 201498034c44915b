// Device, host and managed memory of the runtime.
#include <sys/mman.h>

#include <cstring>

#include "src/vgpu/runtime.h"
#include "src/vgpu/runtime_pools.h"

namespace memmodel::vgpu {
namespace {

constexpr std::size_t kHostPage = 4096;

// Real memory that the host reads and writes; pages cost nothing until touched.
void* MapHost(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

cudaError_t AllocateHost(void** pointer, std::size_t bytes, HostRange::Kind kind, unsigned flags) {
  if (pointer == nullptr) return Note(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > kSpaceEnd) return Note(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + kHostPage - 1) / kHostPage * kHostPage;
  void* memory = MapHost(rounded);
  if (memory == nullptr) return Note(cudaErrorMemoryAllocation);
  State::Get().AddHostRange({.address = Address(memory),
                             .bytes = rounded,
                             .kind = kind,
                             .flags = flags,
                             .device = State::CurrentDevice()});
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t FreeHost(const void* pointer) {
  const std::optional<HostRange> range = State::Get().RemoveHostRange(Address(pointer));
  if (!range || range->kind == HostRange::kRegistered) return Note(cudaErrorInvalidValue);
  munmap(const_cast<void*>(pointer), range->bytes);
  return cudaSuccess;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  State& state = State::Get();
  if (state.device_count() == 0) return Note(cudaErrorNoDevice);
  if (pointer == nullptr) return Note(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::uint64_t address = 0;
  const MemoryOutcome outcome = state.WithMemory([&](DeviceMemory& memory) {
    return memory.Allocate(State::CurrentDevice(), bytes, &address);
  });
  if (outcome == MemoryOutcome::kOk) *pointer = reinterpret_cast<void*>(address);
  return Note(FromOutcome(outcome));
}

VGPU_API cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (const auto range = State::Get().FindHostRange(Address(pointer));
      range && range->kind == HostRange::kManaged) {
    return FreeHost(pointer);
  }
  const MemoryOutcome outcome = State::Get().Free(Address(pointer));
  if (outcome != MemoryOutcome::kOk && FreeToPool(Address(pointer))) return cudaSuccess;
  return Note(FromOutcome(outcome));
}

VGPU_API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return Note(cudaErrorInvalidValue);
  // Rows start at multiples of the texture alignment (512 on all current devices).
  const auto step = static_cast<std::size_t>(State::Get().spec().Get("textureAlignment"));
  const std::size_t alignment = step == 0 ? 512 : step;
  *pitch = (width + alignment - 1) / alignment * alignment;
  return cudaMalloc(pointer, *pitch * height);
}

VGPU_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  State& state = State::Get();
  if (state.device_count() == 0) return Note(cudaErrorNoDevice);
  if (free_bytes == nullptr || total_bytes == nullptr) return Note(cudaErrorInvalidValue);
  *free_bytes = state.FreeBytes(State::CurrentDevice());
  *total_bytes = state.TotalBytes(State::CurrentDevice());
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return AllocateHost(pointer, bytes, HostRange::kPinned, cudaHostAllocDefault);
}

VGPU_API cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return AllocateHost(pointer, bytes, HostRange::kPinned, flags);
}

VGPU_API cudaError_t cudaFreeHost(void* pointer) {
  return pointer == nullptr ? cudaSuccess : FreeHost(pointer);
}

VGPU_API cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0) return Note(cudaErrorInvalidValue);
  if (State::Get().FindHostRange(Address(pointer))) {
    return Note(cudaErrorHostMemoryAlreadyRegistered);
  }
  State::Get().AddHostRange({.address = Address(pointer),
                             .bytes = bytes,
                             .kind = HostRange::kRegistered,
                             .flags = flags,
                             .device = State::CurrentDevice()});
  return cudaSuccess;
}

VGPU_API cudaError_t cudaHostUnregister(void* pointer) {
  const auto range = State::Get().FindHostRange(Address(pointer));
  if (!range || range->kind != HostRange::kRegistered || range->address != Address(pointer)) {
    return Note(cudaErrorHostMemoryNotRegistered);
  }
  State::Get().RemoveHostRange(Address(pointer));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (device == nullptr || !State::Get().FindHostRange(Address(host))) {
    return Note(cudaErrorInvalidValue);
  }
  *device = host;  // unified addressing
  return cudaSuccess;
}

VGPU_API cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  const auto range = State::Get().FindHostRange(Address(host));
  if (flags == nullptr || !range) return Note(cudaErrorInvalidValue);
  *flags = range->flags;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  if (bytes == 0) return Note(cudaErrorInvalidValue);
  return AllocateHost(pointer, bytes, HostRange::kManaged, flags);
}

VGPU_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                              const void* pointer) {
  if (attributes == nullptr) return Note(cudaErrorInvalidValue);
  std::memset(attributes, 0, sizeof *attributes);
  State& state = State::Get();
  if (const auto block = state.WithMemory(
          [&](DeviceMemory& memory) { return memory.Find(Address(pointer)); })) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = block->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  if (const auto range = state.FindHostRange(Address(pointer))) {
    attributes->type =
        range->kind == HostRange::kManaged ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    attributes->device = range->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}
