// The key of a convolution (docs/cudnn.md) as a function of the batch.
#ifndef MEMMODEL_SRC_MODEL_CONVOLUTION_KEYS_H_
#define MEMMODEL_SRC_MODEL_CONVOLUTION_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace memmodel {

struct BatchKey {
  std::int64_t batch = 0;
  const std::string* key = nullptr;
};

// "fwd f32 N C H ..." where each number is a line in the batch: N is mostly the
// batch, or a multiple where frames or windows are folded into it.
class KeyFamily {
 public:
  // Of one convolution at distinct batches, ascending, at least two. Nothing if a key
  // is missing or none, or a number is not a line with integer coefficients.
  static std::optional<KeyFamily> Of(const std::vector<BatchKey>& keys);

  // Nothing at a batch where a number would leave 0..INT32_MAX.
  [[nodiscard]] std::optional<std::string> At(std::int64_t batch) const;

 private:
  struct Line {
    std::int64_t c0 = 0, c1 = 0;
  };
  std::string words_;  // "fwd f32"
  std::vector<Line> numbers_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_CONVOLUTION_KEYS_H_
