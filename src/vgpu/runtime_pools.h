// What the rest of the runtime needs of the memory pools.
#ifndef MEMMODEL_SRC_VGPU_RUNTIME_POOLS_H_
#define MEMMODEL_SRC_VGPU_RUNTIME_POOLS_H_

#include <cstdint>

namespace memmodel::vgpu {

// Whether some pool had given `address` out; it is free then.
bool FreeToPool(std::uint64_t address);

// What happens to pools at a synchronisation.
void ReleasePools();

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_RUNTIME_POOLS_H_
