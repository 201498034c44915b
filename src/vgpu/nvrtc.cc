// libnvrtc: programs are kept and compile at once, to code that does nothing,
// since no kernel runs. Name expressions keep their names, so that a module of
// the driver finds them again.
#include <cuda.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "src/vgpu/export.h"

// From nvrtc.h of CUDA 13.0, which few build machines have.
enum nvrtcResult {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_PROGRAM = 4,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
  NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
  NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
};
struct _nvrtcProgram;
using nvrtcProgram = _nvrtcProgram*;

struct _nvrtcProgram {
  std::string name;
  std::map<std::string, std::string> lowered;  // by expression
  std::string ptx;                             // empty until compiled
};

namespace {

// What the real library knows (nvrtcGetSupportedArchs of CUDA 13.0 and 12.8).
#if CUDA_VERSION >= 13000
constexpr std::array kArchitectures = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
#else
constexpr std::array kArchitectures = {50, 52, 53, 60, 61, 62,  70,  72, 75,
                                       80, 86, 87, 89, 90, 100, 101, 120};
#endif
constexpr int kArchitectureCount = kArchitectures.size();

std::string EmptyPtx() {
  return ".version 9.0\n.target sm_75\n.address_size 64\n";
}

nvrtcResult CopyText(const std::string& text, char* to) {
  if (to == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    default:
      return "NVRTC_ERROR";
  }
}

nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *major = CUDA_VERSION / 1000;
  *minor = CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *count = kArchitectureCount;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  if (architectures == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(architectures, kArchitectures.data(), kArchitectureCount * sizeof(int));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int,
                               const char* const*, const char* const*) {
  if (program == nullptr || source == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *program = new _nvrtcProgram{.name = name == nullptr ? "default_program" : name};
  return NVRTC_SUCCESS;
}

// nvrtcCreateProgram with extensions, which cuDNN calls: the source may be
// encoded, with a function that decodes it. NVIDIA's open-source projects
// declare it so.
nvrtcResult __nvrtcCPEx(nvrtcProgram* program, const char* source, const char* name,
                        int header_count, const char* const* headers,
                        const char* const* include_names, int, const int*, void**) {
  return nvrtcCreateProgram(program, source, name, header_count, headers, include_names);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  if (program == nullptr || *program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (expression == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  if (!program->ptx.empty()) return NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
  program->lowered.emplace(expression, expression);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  program->ptx = EmptyPtx();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** name) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (expression == nullptr || name == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  if (program->ptx.empty()) return NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
  const auto found = program->lowered.find(expression);
  if (found == program->lowered.end()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  *name = found->second.c_str();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  if (program == nullptr || program->ptx.empty()) return NVRTC_ERROR_INVALID_PROGRAM;
  if (size == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *size = program->ptx.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  if (program == nullptr || program->ptx.empty()) return NVRTC_ERROR_INVALID_PROGRAM;
  return CopyText(program->ptx, ptx);
}

// The driver's stand-in takes any image, so PTX serves as code too.
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  return nvrtcGetPTXSize(program, size);
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) { return nvrtcGetPTX(program, code); }

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  if (program == nullptr) return NVRTC_ERROR_INVALID_PROGRAM;
  if (size == nullptr) return NVRTC_ERROR_INVALID_INPUT;
  *size = 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return program == nullptr ? NVRTC_ERROR_INVALID_PROGRAM : CopyText("", log);
}

#pragma GCC visibility pop
}  // extern "C"
