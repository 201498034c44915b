// The key of a call as a function of the batch: of a convolution (docs/cudnn.md) or of an
// operator (docs/trace_format.md).
#ifndef MEMMODEL_SRC_MODEL_KEY_FAMILY_H_
#define MEMMODEL_SRC_MODEL_KEY_FAMILY_H_

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

// A text in which each number is a line in the batch: the batch itself, or a multiple
// where frames or windows are folded into it.
class KeyFamily {
 public:
  // Of one call at distinct batches, ascending, at least two. Nothing if a key is
  // missing, texts differ beside the numbers, or a number is not a line with integer
  // coefficients.
  static std::optional<KeyFamily> Of(const std::vector<BatchKey>& keys);

  // Whether the batch does not enter: the same at all of them.
  [[nodiscard]] bool constant() const;

  // Nothing at a batch where a number that follows it would be below 1.
  [[nodiscard]] std::optional<std::string> At(std::int64_t batch) const;

 private:
  struct Line {
    std::int64_t c0 = 0, c1 = 0;
  };
  std::vector<std::string> texts_;  // before each number, and after the last
  std::vector<Line> numbers_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_KEY_FAMILY_H_
