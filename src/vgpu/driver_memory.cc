// Memory of the driver: allocations, and virtual memory as PyTorch's
// expandable segments use it.
#include "src/vgpu/driver.h"

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

namespace {

// The device of a location, -1 if it is not device memory of this machine.
int LocatedDevice(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && ValidDevice(location.id) ? location.id : -1;
}

}  // namespace

VGPU_API CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  const MemoryOutcome outcome = State::Get().WithMemory([&](DeviceMemory& memory) {
    return memory.Allocate(State::CurrentDevice(), bytes, &address);
  });
  *pointer = address;
  return FromOutcome(outcome);
}

VGPU_API CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return pointer == 0 ? CUDA_SUCCESS : FromOutcome(State::Get().Free(pointer));
}

VGPU_API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *free_bytes = State::Get().FreeBytes(State::CurrentDevice());
  *total_bytes = State::Get().TotalBytes(State::CurrentDevice());
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                                const CUmemAllocationProp* properties,
                                                CUmemAllocationGranularity_flags) {
  if (granularity == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kPageBytes;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment,
                                      CUdeviceptr wanted, unsigned long long flags) {
  if (pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  const MemoryOutcome outcome = State::Get().WithMemory([&](DeviceMemory& memory) {
    return memory.Reserve(bytes, alignment, wanted, &address);
  });
  *pointer = address;
  return FromOutcome(outcome);
}

VGPU_API CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  return FromOutcome(State::Get().WithMemory(
      [&](DeviceMemory& memory) { return memory.FreeReservation(pointer, bytes); }));
}

VGPU_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = LocatedDevice(properties->location);
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t made = 0;
  const MemoryOutcome outcome = State::Get().WithMemory(
      [&](DeviceMemory& memory) { return memory.Create(device, bytes, &made); });
  *handle = made;
  return FromOutcome(outcome);
}

VGPU_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return FromOutcome(State::Get().WithMemory(
      [&](DeviceMemory& memory) { return memory.Release(handle); }));
}

VGPU_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t found = 0;
  const MemoryOutcome outcome = State::Get().WithMemory([&](DeviceMemory& memory) {
    return memory.Retain(reinterpret_cast<std::uint64_t>(address), &found);
  });
  *handle = found;
  return FromOutcome(outcome);
}

VGPU_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                         CUmemGenericAllocationHandle handle) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto device = State::Get().WithMemory(
      [&](DeviceMemory& memory) { return memory.HandleDevice(handle); });
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = *device;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (flags != 0 || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  return FromOutcome(State::Get().WithMemory(
      [&](DeviceMemory& memory) { return memory.Map(pointer, bytes, handle); }));
}

VGPU_API CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  return FromOutcome(State::Get().Unmap(pointer, bytes));
}

VGPU_API CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc* access, size_t count) {
  return access == nullptr || count == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

VGPU_API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                        CUdeviceptr pointer) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto block =
      State::Get().WithMemory([&](DeviceMemory& memory) { return memory.Find(pointer); });
  const auto range = State::Get().FindHostRange(pointer);
  if (!block && !range) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = block ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = block ? block->device : range->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = range && range->kind == HostRange::kManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block ? block->address : range->address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = block ? block->bytes : range->bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block ? block->address : range->address;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

VGPU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  const auto block =
      State::Get().WithMemory([&](DeviceMemory& memory) { return memory.Find(pointer); });
  if (!block) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block->address;
  if (bytes != nullptr) *bytes = block->bytes;
  return CUDA_SUCCESS;
}
