// NVIDIA's own library behind a stand-in that forwards to it.
#ifndef MEMMODEL_SRC_VGPU_REAL_LIBRARY_H_
#define MEMMODEL_SRC_VGPU_REAL_LIBRARY_H_

#include <string>

namespace memmodel::vgpu {

// Looks `name` up in the library at `path`, which is opened at first use with
// RTLD_LOCAL. A library or a name that is missing leaves no way to answer: says
// so on standard error, naming `variable`, and ends the process.
void* RealFunction(const std::string& path, const char* variable, const char* name);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_REAL_LIBRARY_H_
