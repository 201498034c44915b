// libcufft: plans are kept with the work area that cuFFT would ask for
// (cufft_work_area.h); a plan of which that is not known cannot be made.
#include <library_types.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/vgpu/calls.h"
#include "src/vgpu/cufft_work_area.h"
#include "src/vgpu/export.h"
#include "src/vgpu/state.h"

namespace {

using memmodel::vgpu::FftPlan;
using memmodel::vgpu::FftSizes;
using memmodel::vgpu::Transform;

// cufftResult, of cufft.h, which few build machines have.
constexpr int kSuccess = 0;
constexpr int kInvalidPlan = 1;
constexpr int kInvalidValue = 4;
constexpr int kInvalidSize = 8;
constexpr int kNotSupported = 16;

struct Plan {
  bool allocates = true;  // its work area itself
  std::size_t work_area = 0;
};

struct Plans {
  std::mutex mutex;
  int next = 1;  // cufftHandle is an int, unlike the handles of other libraries
  std::map<int, Plan> all;
};

Plans& AllPlans() {
  static auto* const plans = new Plans;
  return *plans;
}

// What `action` returns for that plan, under the lock.
template <typename Action>
int WithPlan(int handle, Action action) {
  const std::lock_guard<std::mutex> lock(AllPlans().mutex);
  const auto found = AllPlans().all.find(handle);
  return found == AllPlans().all.end() ? kInvalidPlan : action(&found->second);
}

const FftSizes& Sizes() {
  static const FftSizes* const sizes = [] {
    auto parsed = FftSizes::Parse(memmodel::vgpu::kHopperFftSizes);
    if (parsed.ok()) return new FftSizes(*std::move(parsed));
    std::fprintf(stderr, "memmodel: libcufft: %s\n", parsed.status().message().c_str());
    return new FftSizes;
  }();
  return *sizes;
}

// Bytes of a real number where the three types belong together, else nothing.
std::optional<int> Describe(cudaDataType in, cudaDataType out, cudaDataType executed,
                            Transform* transform) {
  struct Precision {
    cudaDataType real, complex;
    int bytes;
  };
  for (const auto& [real, complex, bytes] : {Precision{CUDA_R_32F, CUDA_C_32F, 4},
                                             {CUDA_R_64F, CUDA_C_64F, 8},
                                             {CUDA_R_16F, CUDA_C_16F, 2}}) {
    if (executed != complex || (in != real && in != complex) || (out != real && out != complex)) {
      continue;
    }
    if (in == real && out == real) return std::nullopt;
    *transform = in == real    ? Transform::kRealToComplex
                 : out == real ? Transform::kComplexToReal
                               : Transform::kComplex;
    return bytes;
  }
  return std::nullopt;
}

// The largest batch that was measured with such signals (data/cufft/measure_plans.py).
std::int64_t MeasuredBatch(const FftPlan& plan) {
  if (plan.real_bytes == 4 && plan.layout.empty()) {
    const std::int64_t largest = std::ranges::max(plan.sizes);
    if (plan.sizes.size() == 1 && largest <= 2048) return 50000;
    if (plan.sizes.size() == 2 && largest <= 256) return 6144;
  }
  return 1000;
}

// One side of a plan, as cuFFT's advanced data layout describes it.
struct Side {
  const long long* embed = nullptr;
  long long stride = 1, distance = 1;

  // Whether the rows of a signal of these sizes follow each other. embed[0] does not enter.
  [[nodiscard]] bool Holds(const std::vector<std::int64_t>& sizes) const {
    return std::equal(sizes.begin() + 1, sizes.end(), embed + 1);
  }
};

// Whether signals of these sizes, `stride` apart, follow each other.
bool Follow(const std::vector<std::int64_t>& sizes, long long stride, long long distance) {
  std::uint64_t elements = 1;  // wraps where WorkArea() refuses
  for (const std::int64_t size : sizes) elements *= static_cast<std::uint64_t>(size);
  return elements * static_cast<std::uint64_t>(stride) == static_cast<std::uint64_t>(distance);
}

// The layout that the list of sizes would have a name for, else nothing.
std::optional<std::string> ReadLayout(const Side& in, const Side& out, const FftPlan& plan) {
  if (in.embed == nullptr && out.embed == nullptr) return "";  // cuFFT's shorthand for packed
  if (in.embed == nullptr || out.embed == nullptr || in.stride < 1 || out.stride != 1) {
    return std::nullopt;
  }
  std::vector<std::int64_t> spectrum = plan.sizes;
  spectrum.back() = spectrum.back() / 2 + 1;
  const auto& in_sizes = plan.transform == Transform::kComplexToReal ? spectrum : plan.sizes;
  const auto& out_sizes = plan.transform == Transform::kRealToComplex ? spectrum : plan.sizes;
  const bool one = plan.batch == 1;  // whose distance does not enter

  std::string layout;
  if (!in.Holds(in_sizes)) return std::nullopt;
  if (one || Follow(in_sizes, in.stride, in.distance)) {
    layout = in.stride == 1 ? "" : "-strided";
  } else if (in.distance == 1 && in.stride == plan.batch) {
    layout = "-columns";
  } else if (in.stride == 1 && plan.sizes.size() == 1 &&
             in.distance == std::max<std::int64_t>(1, plan.sizes[0] / 4)) {
    layout = "-frames";
  } else {
    return std::nullopt;
  }
  if (out.Holds(out_sizes) && (one || Follow(out_sizes, 1, out.distance))) return layout;
  if (out.Holds(plan.sizes) && (one || Follow(plan.sizes, 1, out.distance))) {
    return layout + "-padded";
  }
  return std::nullopt;
}

}  // namespace

extern "C" {

MEMMODEL_VGPU_EXPORT int cufftCreate(int* plan) {
  if (plan == nullptr) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(AllPlans().mutex);
  *plan = AllPlans().next++;
  AllPlans().all[*plan] = {};
  return kSuccess;
}

MEMMODEL_VGPU_EXPORT int cufftDestroy(int plan) {
  const std::lock_guard<std::mutex> lock(AllPlans().mutex);
  return AllPlans().all.erase(plan) == 1 ? kSuccess : kInvalidPlan;
}

MEMMODEL_VGPU_EXPORT int cufftSetAutoAllocation(int plan, int allocate) {
  return WithPlan(plan, [&](Plan* found) {
    found->allocates = allocate != 0;
    return kSuccess;
  });
}

MEMMODEL_VGPU_EXPORT int cufftGetSize(int plan, std::size_t* work_area) {
  if (work_area == nullptr) return kInvalidValue;
  return WithPlan(plan, [&](Plan* found) {
    *work_area = found->work_area;
    return kSuccess;
  });
}

MEMMODEL_VGPU_EXPORT int cufftXtMakePlanMany(int plan, int rank, long long* sizes,
                                             long long* in_embed, long long in_stride,
                                             long long in_distance, cudaDataType in_type,
                                             long long* out_embed, long long out_stride,
                                             long long out_distance, cudaDataType out_type,
                                             long long batch, std::size_t* work_area,
                                             cudaDataType executed) {
  static memmodel_vgpu_call refused = {"cufftXtMakePlanMany", 0, nullptr};
  static memmodel_vgpu_call approximate = {"cufftXtMakePlanMany", 0, nullptr};
  if (rank < 1 || rank > 3 || sizes == nullptr || work_area == nullptr) return kInvalidValue;
  FftPlan fft;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] < 1) return kInvalidSize;
    fft.sizes.push_back(sizes[i]);
  }
  if (batch < 1) return kInvalidSize;
  fft.batch = batch;
  std::optional<std::int64_t> bytes;
  if (const auto real_bytes = Describe(in_type, out_type, executed, &fft.transform)) {
    fft.real_bytes = *real_bytes;
    const auto layout =
        ReadLayout({in_embed, in_stride, in_distance}, {out_embed, out_stride, out_distance}, fft);
    if (layout) {
      fft.layout = *layout;
      bytes = Sizes().WorkArea(fft);
    }
  }
  const auto& device = memmodel::vgpu::State::Get().spec();
  return WithPlan(plan, [&](Plan* found) {
    // A work area of cuFFT's own would be memory that nobody sees.
    if (!bytes || (found->allocates && *bytes > 0)) {
      memmodel_vgpu_refuse(&refused);
      return kNotSupported;
    }
    // Other GPUs, CUDA versions and larger batches were not measured.
    if (device.ComputeCapability() != Sizes().compute_capability() || MEMMODEL_CUDA_MAJOR != 13 ||
        batch > MeasuredBatch(fft)) {
      memmodel_vgpu_approximate(&approximate);
    }
    found->work_area = static_cast<std::size_t>(*bytes);
    *work_area = found->work_area;
    return kSuccess;
  });
}

}  // extern "C"
