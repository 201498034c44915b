// Stream-ordered allocation of the runtime. Every free is complete at once; what
// a pool may not keep goes back at the next synchronisation.
#include <cuda.h>

#include <array>
#include <memory>
#include <vector>

#include "src/vgpu/memory_pool.h"
#include "src/vgpu/runtime.h"
#include "src/vgpu/runtime_pools.h"

namespace memmodel::vgpu {
namespace {

// Guarded by State::Lock().
struct Pools {
  std::array<std::unique_ptr<MemoryPool>, kMostDevices> defaults;
  std::array<MemoryPool*, kMostDevices> current = {};
  std::vector<std::unique_ptr<MemoryPool>> made;

  MemoryPool* Default(int device) {
    auto& pool = defaults[static_cast<std::size_t>(device)];
    if (pool == nullptr) pool = std::make_unique<MemoryPool>(device);
    return pool.get();
  }
  MemoryPool*& Current(int device) {
    MemoryPool*& pool = current[static_cast<std::size_t>(device)];
    if (pool == nullptr) pool = Default(device);
    return pool;
  }
  template <typename Action>
  void Each(Action action) {
    for (auto& pool : defaults) {
      if (pool != nullptr) action(pool.get());
    }
    for (auto& pool : made) action(pool.get());
  }
};

Pools& ThePools() {
  static auto* pools = new Pools;
  return *pools;
}

MemoryPool* ToPool(cudaMemPool_t pool) { return reinterpret_cast<MemoryPool*>(pool); }
cudaMemPool_t FromPool(MemoryPool* pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

cudaError_t AllocateFrom(MemoryPool* pool, void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return Note(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::uint64_t address = 0;
  const MemoryOutcome outcome = State::Get().WithMemory([&](DeviceMemory& memory) {
    return (pool == nullptr ? ThePools().Current(State::CurrentDevice()) : pool)
        ->Allocate(&memory, bytes, &address);
  });
  if (outcome == MemoryOutcome::kOk) *pointer = reinterpret_cast<void*>(address);
  return Note(FromOutcome(outcome));
}

}  // namespace

bool FreeToPool(std::uint64_t address) {
  return State::Get().WithMemory([&](DeviceMemory&) {
    bool freed = false;
    ThePools().Each([&](MemoryPool* pool) {
      freed = freed || pool->Free(address) == MemoryOutcome::kOk;
    });
    return freed;
  });
}

void ReleasePools() {
  State::Get().WithMemory([](DeviceMemory& memory) {
    ThePools().Each([&](MemoryPool* pool) {
      if (pool->reserved() > pool->release_threshold) {
        pool->TrimTo(&memory, pool->release_threshold);
      }
    });
  });
}

}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  const auto lock = State::Get().Lock();
  *pool = FromPool(ThePools().Default(device));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return Note(cudaErrorInvalidValue);
  if (!ValidDevice(device)) return Note(cudaErrorInvalidDevice);
  const auto lock = State::Get().Lock();
  *pool = FromPool(ThePools().Current(device));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  if (pool == nullptr || !ValidDevice(device)) return Note(cudaErrorInvalidValue);
  const auto lock = State::Get().Lock();
  ThePools().Current(device) = ToPool(pool);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr) return Note(cudaErrorInvalidValue);
  if (properties->location.type != cudaMemLocationTypeDevice) return Note(cudaErrorNotSupported);
  if (!ValidDevice(properties->location.id)) return Note(cudaErrorInvalidDevice);
  const auto lock = State::Get().Lock();
  ThePools().made.push_back(std::make_unique<MemoryPool>(properties->location.id));
  *pool = FromPool(ThePools().made.back().get());
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return State::Get().WithMemory([&](DeviceMemory& memory) {
    auto& made = ThePools().made;
    for (auto entry = made.begin(); entry != made.end(); ++entry) {
      if (entry->get() != ToPool(pool)) continue;
      (*entry)->TrimTo(&memory, 0);
      for (MemoryPool*& current : ThePools().current) {
        if (current == ToPool(pool)) current = nullptr;
      }
      if ((*entry)->used() == 0) made.erase(entry);  // else it lives as long as its memory
      return cudaSuccess;
    }
    return Note(cudaErrorInvalidValue);
  });
}

VGPU_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  if (pool == nullptr) return Note(cudaErrorInvalidValue);
  State::Get().WithMemory([&](DeviceMemory& memory) { ToPool(pool)->TrimTo(&memory, keep); });
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                             void* value) {
  if (pool == nullptr || value == nullptr) return Note(cudaErrorInvalidValue);
  const auto lock = State::Get().Lock();
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      ToPool(pool)->release_threshold = *static_cast<cuuint64_t*>(value);
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      ToPool(pool)->ResetReservedHigh();
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      ToPool(pool)->ResetUsedHigh();
      return cudaSuccess;
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      return cudaSuccess;  // about pending work, of which there is none
    default:
      return Note(cudaErrorInvalidValue);
  }
}

VGPU_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                             void* value) {
  if (pool == nullptr || value == nullptr) return Note(cudaErrorInvalidValue);
  const auto lock = State::Get().Lock();
  const auto set = [value](std::uint64_t figure) {
    *static_cast<cuuint64_t*>(value) = figure;
    return cudaSuccess;
  };
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return set(ToPool(pool)->release_threshold);
    case cudaMemPoolAttrReservedMemCurrent:
      return set(ToPool(pool)->reserved());
    case cudaMemPoolAttrReservedMemHigh:
      return set(ToPool(pool)->reserved_high());
    case cudaMemPoolAttrUsedMemCurrent:
      return set(ToPool(pool)->used());
    case cudaMemPoolAttrUsedMemHigh:
      return set(ToPool(pool)->used_high());
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies:
      *static_cast<int*>(value) = 1;
      return cudaSuccess;
    default:
      return Note(cudaErrorInvalidValue);
  }
}

VGPU_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*, size_t) {
  return pool == nullptr ? Note(cudaErrorInvalidValue) : cudaSuccess;
}

VGPU_API cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  if (State::Get().device_count() == 0) return Note(cudaErrorNoDevice);
  return AllocateFrom(nullptr, pointer, bytes);
}

VGPU_API cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                             cudaStream_t) {
  if (pool == nullptr) return Note(cudaErrorInvalidValue);
  return AllocateFrom(ToPool(pool), pointer, bytes);
}

VGPU_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) {
  if (pointer == nullptr || FreeToPool(Address(pointer))) return cudaSuccess;
  return cudaFree(pointer);
}
