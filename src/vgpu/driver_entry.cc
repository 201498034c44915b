#include "src/vgpu/driver_entry.h"

#include <dlfcn.h>

#include <string>

namespace memmodel::vgpu {

// The newest form of a function that this library has: cuda.h maps a name to
// NAME_v2 and so on where the ABI changed.
void* DriverEntry(void* library, const char* name) {
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    if (void* found = dlsym(library, (std::string(name) + suffix).c_str())) return found;
  }
  return nullptr;
}

}  // namespace memmodel::vgpu
