// Finding a function of the driver by the name that cuda.h gives it.
#ifndef MEMMODEL_SRC_VGPU_DRIVER_ENTRY_H_
#define MEMMODEL_SRC_VGPU_DRIVER_ENTRY_H_

namespace memmodel::vgpu {

// `library` is a handle of dlopen; null if it has no such function.
void* DriverEntry(void* library, const char* name);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_DRIVER_ENTRY_H_
