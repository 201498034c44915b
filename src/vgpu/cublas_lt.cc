// libcublasLt: descriptors and layouts are the real library's, which need no
// device; the heuristic answers with algorithms that need the workspace that
// the real one's would (cublas_lt_workspace.h).
#include <cublasLt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "src/vgpu/calls.h"
#include "src/vgpu/cublas_lt_workspace.h"
#include "src/vgpu/export.h"
#include "src/vgpu/real_library.h"
#include "src/vgpu/state.h"

extern "C" void* memmodel_vgpu_real(const char* name) {
  return memmodel::vgpu::RealFunction(memmodel::vgpu::State::Get().cublas_lt_path(),
                                      "MEMMODEL_VGPU_CUBLASLT", name);
}

namespace {

using memmodel::vgpu::Matmul;
using memmodel::vgpu::MatmulTrees;

// An attribute of a descriptor, through the real library's own reader of it.
template <typename Value, typename Function, typename Descriptor, typename Attribute>
bool Read(Function function, Descriptor descriptor, Attribute attribute, Value* value) {
  std::size_t written = 0;
  return function(descriptor, attribute, value, sizeof *value, &written) == CUBLAS_STATUS_SUCCESS;
}

int ElementBytes(std::uint32_t type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

// Nothing for what the rule does not speak of: other types, float without TF32.
std::optional<Matmul> Describe(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d) {
  static const auto of_matmul = reinterpret_cast<decltype(&cublasLtMatmulDescGetAttribute)>(
      memmodel_vgpu_real("cublasLtMatmulDescGetAttribute"));
  static const auto of_layout = reinterpret_cast<decltype(&cublasLtMatrixLayoutGetAttribute)>(
      memmodel_vgpu_real("cublasLtMatrixLayoutGetAttribute"));
  std::int32_t compute = 0, transpose_a = 0, transpose_b = 0, batch = 1;
  std::uint32_t type_a = 0, type_b = 0, type_d = 0;
  std::uint64_t rows_a = 0, columns_a = 0, rows_d = 0, columns_d = 0;
  std::int64_t leading_a = 0, leading_b = 0, leading_d = 0;
  if (!Read(of_matmul, description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute) ||
      !Read(of_matmul, description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose_a) ||
      !Read(of_matmul, description, CUBLASLT_MATMUL_DESC_TRANSB, &transpose_b) ||
      !Read(of_layout, a, CUBLASLT_MATRIX_LAYOUT_TYPE, &type_a) ||
      !Read(of_layout, b, CUBLASLT_MATRIX_LAYOUT_TYPE, &type_b) ||
      !Read(of_layout, d, CUBLASLT_MATRIX_LAYOUT_TYPE, &type_d) ||
      !Read(of_layout, a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows_a) ||
      !Read(of_layout, a, CUBLASLT_MATRIX_LAYOUT_COLS, &columns_a) ||
      !Read(of_layout, d, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows_d) ||
      !Read(of_layout, d, CUBLASLT_MATRIX_LAYOUT_COLS, &columns_d) ||
      !Read(of_layout, a, CUBLASLT_MATRIX_LAYOUT_LD, &leading_a) ||
      !Read(of_layout, b, CUBLASLT_MATRIX_LAYOUT_LD, &leading_b) ||
      !Read(of_layout, d, CUBLASLT_MATRIX_LAYOUT_LD, &leading_d) ||
      !Read(of_layout, d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch)) {
    return std::nullopt;
  }
  const int bytes = ElementBytes(type_a);
  const int bytes_d = ElementBytes(type_d);
  if (bytes == 0 || bytes_d == 0 || type_b != type_a) return std::nullopt;
  if (bytes == 4 && compute != CUBLAS_COMPUTE_32F_FAST_TF32) return std::nullopt;
  Matmul matmul;
  matmul.m = static_cast<std::int64_t>(rows_d);
  matmul.n = static_cast<std::int64_t>(columns_d);
  matmul.k = static_cast<std::int64_t>(transpose_a == CUBLAS_OP_N ? columns_a : rows_a);
  matmul.batch = batch;
  matmul.transpose_a = transpose_a != CUBLAS_OP_N;
  matmul.transpose_b = transpose_b != CUBLAS_OP_N;
  matmul.element_bytes = bytes;
  matmul.row_bytes_a = leading_a * bytes;
  matmul.row_bytes_b = leading_b * bytes;
  matmul.row_bytes_d = leading_d * bytes_d;
  return matmul;
}

const MatmulTrees& Trees() {
  static const MatmulTrees* const trees = [] {
    auto parsed = MatmulTrees::Parse(memmodel::vgpu::kHopperMatmuls);
    if (parsed.ok()) return new MatmulTrees(*std::move(parsed));
    std::fprintf(stderr, "memmodel: libcublasLt: %s\n", parsed.status().message().c_str());
    return new MatmulTrees;
  }();
  return *trees;
}

std::size_t Workspace(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d,
                      cublasLtMatmulPreference_t preference) {
  // Other generations have other kernels, which were not measured.
  const memmodel::vgpu::DeviceSpec& device = memmodel::vgpu::State::Get().spec();
  if (device.ComputeCapability() != Trees().compute_capability()) return 0;
  static const auto of_preference =
      reinterpret_cast<decltype(&cublasLtMatmulPreferenceGetAttribute)>(
          memmodel_vgpu_real("cublasLtMatmulPreferenceGetAttribute"));
  std::uint64_t limit = 0;
  if (!Read(of_preference, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit) ||
      limit == 0) {
    return 0;
  }
  const std::optional<Matmul> matmul = Describe(description, a, b, d);
  if (!matmul) return 0;
  return static_cast<std::size_t>(Trees().Workspace(*matmul, static_cast<std::int64_t>(limit),
                                                    device.Get("multiProcessorCount")));
}

}  // namespace

extern "C" MEMMODEL_VGPU_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t* results,
    int* returned) {
  // cuDNN asks for several, once for each value of its knob WORKSPACE (limits of
  // 0, 4 MiB and 128 MiB), and makes room for the largest of the answers.
  const std::size_t workspace = Workspace(description, a, b, d, preference);
  const int count = std::min(requested, 3);
  for (int i = 0; i < count; ++i) {
    std::memset(&results[i], 0, sizeof results[i]);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1;
    results[i].workspaceSize = workspace;
    results[i].algo.data[0] = static_cast<std::uint64_t>(i) + 1;
  }
  *returned = count;
  return CUBLAS_STATUS_SUCCESS;
}
