#include "src/vgpu/real_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace memmodel::vgpu {

void* RealFunction(const std::string& path, const char* variable, const char* name) {
  // Each stand-in has a copy of this function, and so one library of its own.
  static void* const library = [&] {
    void* opened = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) {
      const char* reason = path.empty() ? "it is not set" : dlerror();
      std::fprintf(stderr, "memmodel: cannot open the library that %s names: %s\n", variable,
                   reason);
      std::_Exit(1);
    }
    return opened;
  }();
  void* function = dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "memmodel: %s has no function %s; another version is needed\n",
                 path.c_str(), name);
    std::_Exit(1);
  }
  return function;
}

}  // namespace memmodel::vgpu
