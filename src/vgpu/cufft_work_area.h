// The work area that a cuFFT plan asks for. The rule was read off 51,288 plans made
// on an NVIDIA H200 (cuFFT 12.0). As it was after the first 19,681 of them it gave the
// measured bytes of all 13,610 later plans that it spoke of (docs/stand_ins.md). For the
// rest there is no answer.
#ifndef MEMMODEL_SRC_VGPU_CUFFT_WORK_AREA_H_
#define MEMMODEL_SRC_VGPU_CUFFT_WORK_AREA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::vgpu {

enum class Transform { kComplex, kRealToComplex, kComplexToReal };

struct FftPlan {
  Transform transform = Transform::kComplex;
  std::vector<std::int64_t> sizes;  // of the real signal, outermost first; 1 to 3 of them
  std::int64_t batch = 1;
  int real_bytes = 0;  // of a real number: 2, 4 or 8; a complex one is two
  // How the signals lie, as the list of sizes names it. Empty: packed. -strided: the
  // elements of a signal apart in the input, signal after signal. -columns: signals side
  // by side, all that lie there. -frames: signals of one dimension, each a quarter of its
  // length after the one before. -padded, also after one of these: a spectrum in the
  // place of the whole signal.
  std::string layout;
};

// Which sizes one kernel transforms, without a buffer: those that cuFFT's authors
// wrote or generated kernels for, which follow no rule.
//
// Text: a first line `# memmodel cuFFT sizes 1; compute capability CC; source: ...`, then lines
// `PLACE REAL_BYTES one|more SIZES`, where SIZES are numbers and ranges (`2-33 35`).
// PLACE is c2c, r2c or c2r and the layout; all dimensions but the last are c2c-strided.
class FftSizes {
 public:
  static Result<FftSizes> Parse(const std::string& text);

  [[nodiscard]] int compute_capability() const { return compute_capability_; }
  // In bytes; nothing where the rule or the sizes do not say it.
  [[nodiscard]] std::optional<std::int64_t> WorkArea(const FftPlan& plan) const;

 private:
  [[nodiscard]] std::optional<bool> TakesOneKernel(const std::string& place, int real_bytes,
                                                   std::int64_t size) const;

  int compute_capability_ = 0;
  std::map<std::pair<std::string, int>, std::map<std::int64_t, bool>> one_kernel_;
};

// data/cufft/h200.sizes, which the build puts into the library.
extern const char* const kHopperFftSizes;

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUFFT_WORK_AREA_H_
