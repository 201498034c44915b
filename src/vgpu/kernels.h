// The program's own kernels and device variables, as nvcc's start-up code
// registers them, and what of them has been loaded so far. The driver loads a
// module (the code of one translation unit) at the first launch of one of its
// kernels on a device.
#ifndef MEMMODEL_SRC_VGPU_KERNELS_H_
#define MEMMODEL_SRC_VGPU_KERNELS_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/vgpu/fatbin.h"

namespace memmodel::vgpu {

struct Module {
  const void* wrapper = nullptr;            // fatbin.h
  std::vector<const void*> functions;       // host addresses that stand for its kernels
  std::atomic<std::uint32_t> loaded = 0;    // a bit a device
};

struct Kernel {
  Module* module = nullptr;
  const void* function = nullptr;           // host address
  std::atomic<bool> launched = false;
};

// All functions may be called from any thread. Modules and kernels live until
// the process ends, also those that are unregistered (a library was closed).
Module* RegisterModule(const void* wrapper);
void RegisterKernel(Module* module, const void* function);
void RegisterVariable(const void* host, std::uint64_t bytes);

// Null if `function` was never registered.
Kernel* FindKernel(const void* function);
// The device address of a registered variable, 0 if it is none.
std::uint64_t VariableAddress(const void* host);

// The image of the kernel's module that the current devices load: PickImage, or
// where that finds none the oldest code there is (as if the program had been
// built for this device too), which is logged once.
std::optional<CodeImage> ImageOf(const Module& module);

// Counts a launch on `device`, and what it loads, in the state. False if the
// device has no memory for it.
bool CountLaunchOf(Kernel* kernel, int device);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_KERNELS_H_
