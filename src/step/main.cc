// memmodel-trace: runs a network's training step on the virtual GPU or on a real
// one, for the program memmodel. Links no LibTorch: it first opens the stand-ins
// of the virtual GPU, so that libmemmodel_step.so and LibTorch, opened after them,
// meet these instead of NVIDIA's libraries (docs/architecture.md).
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"
#include "src/step/calibrate.h"
#include "src/step/job.h"
#include "src/step/serve.h"

namespace memmodel::step {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsage =
    "usage: memmodel-trace --serve          jobs and probes from standard input, one JSON object a "
    "line\n"
    "       memmodel-trace --job FILE       the same lines from a file\n"
    "Answers go to standard output, one JSON object a line. docs/architecture.md describes both.\n";

// The first folder of lib/memmodel/... beside the program (build tree) or one level
// up (installed in bin/) that exists.
fs::path BesideProgram(const fs::path& relative) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate : {folder / relative, folder / ".." / relative}) {
    if (fs::exists(candidate, error)) return candidate;
  }
  return folder / relative;
}

// The real cuDNN beside torch, for its heuristics, unless the caller named one.
void NameRealLibraries() {
  const fs::path wheels = fs::path(MEMMODEL_TORCH_ROOT).parent_path() / "nvidia";
  const auto name = [](const char* variable, const fs::path& path) {
    std::error_code error;
    if (fs::exists(path, error)) setenv(variable, path.c_str(), /*overwrite=*/0);
  };
  name("MEMMODEL_VGPU_CUDNN", wheels / "cudnn" / "lib" / "libcudnn.so.9");
  name("MEMMODEL_VGPU_CUBLASLT", wheels / "cu13" / "lib" / "libcublasLt.so.13");
}

Status OpenStandIns() {
  const char* named = std::getenv("MEMMODEL_VGPU_DIR");
  const fs::path folder =
      named != nullptr ? fs::path(named) : BesideProgram("lib/memmodel/vgpu/cuda13");
  std::error_code error;
  std::vector<fs::path> libraries;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const std::size_t so = name.find(".so");
    if (so == std::string::npos ||
        name.find_first_not_of(".0123456789", so + 3) != std::string::npos)
      continue;
    libraries.push_back(entry.path());
  }
  if (libraries.empty()) {
    return Status::Unavailable("no virtual GPU in " + folder.string() +
                               "; set MEMMODEL_VGPU_DIR to the folder of its libraries");
  }
  // The shared state first: the others need it.
  std::sort(libraries.begin(), libraries.end(), [](const fs::path& a, const fs::path& b) {
    const auto rank = [](const fs::path& p) {
      return p.filename().string().starts_with("libmemmodel_vgpu") ? 0 : 1;
    };
    return std::pair(rank(a), a) < std::pair(rank(b), b);
  });
  for (const fs::path& library : libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      return Status::Unavailable(std::string("cannot open the virtual GPU: ") + dlerror());
    }
  }
  return {};
}

// A function of libmemmodel_step.so, which is opened for it.
Result<void*> OpenStep(const char* name) {
  const char* named = std::getenv("MEMMODEL_STEP_LIBRARY");
  const fs::path path =
      named != nullptr ? fs::path(named) : BesideProgram("lib/memmodel/libmemmodel_step.so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    return Status::Unavailable(std::string("cannot load LibTorch: ") + dlerror());
  void* entry = dlsym(library, name);
  if (entry == nullptr) return Status::Unavailable(std::string(dlerror()));
  return entry;
}

int Fail(const Status& status) {
  std::fputs(FormatError(status).c_str(), stdout);
  std::fflush(stdout);
  return ExitCode(status);
}

// Reads up to the first newline and not one byte more: the rest is the server's.
std::string ReadLine(int fd) {
  std::string line;
  char c = 0;
  while (read(fd, &c, 1) == 1 && c != '\n') line.push_back(c);
  return line;
}

int Run(int in_fd) {
  const std::string line = ReadLine(in_fd);
  const bool calibrate = line.starts_with("{\"calibrate\":");
  bool virtual_device = false;
  if (calibrate) {
    virtual_device = line.find("\"device\":\"virtual\"") != std::string::npos;
  } else {
    const Result<Job> job = ParseJob(line);
    if (!job.ok()) return Fail(job.status());
    virtual_device = job->virtual_device;
  }
  if (virtual_device) {
    NameRealLibraries();
    if (const Status status = OpenStandIns(); !status.ok()) return Fail(status);
  }
  // Lazy loading of kernels is what Python's torch asks of the driver.
  setenv("CUDA_MODULE_LOADING", "LAZY", /*overwrite=*/0);
  const Result<void*> entry =
      OpenStep(calibrate ? "memmodel_step_calibrate" : "memmodel_step_serve");
  if (!entry.ok()) return Fail(entry.status());
  std::fflush(stdout);
  // The protocol's stream is the server's alone; whatever else prints goes to stderr.
  const int out_fd = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (calibrate) {
    return reinterpret_cast<decltype(&memmodel_step_calibrate)>(*entry)(line.c_str(), out_fd);
  }
  return reinterpret_cast<decltype(&memmodel_step_serve)>(*entry)(line.c_str(), in_fd, out_fd);
}

}  // namespace
}  // namespace memmodel::step

int main(int argc, char** argv) {
  using namespace memmodel::step;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--serve" && argc == 2) _exit(Run(STDIN_FILENO));
  if (first == "--job" && argc == 3) {
    std::FILE* file = std::fopen(argv[2], "re");
    if (file == nullptr) {
      std::fprintf(stderr, "memmodel-trace: cannot read %s\n", argv[2]);
      return memmodel::kExitBadInput;
    }
    _exit(Run(fileno(file)));
  }
  std::fputs(kUsage.data(), first == "--help" ? stdout : stderr);
  return first == "--help" ? 0 : memmodel::kExitBadInput;
}
