// The peak of the live requests as a closed form of the batch.
#ifndef MEMMODEL_SRC_MODEL_PEAK_H_
#define MEMMODEL_SRC_MODEL_PEAK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "src/model/program.h"

namespace memmodel {

// The live sum just after one event.
struct PeakCandidate {
  std::int32_t event = 0;
  Bytes constant = 0;  // of the rules that are lines in multiples of 512 bytes
  Bytes slope = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> others;  // (rule, how many are live)
};

class PeakEnvelope {
 public:
  explicit PeakEnvelope(const Program& program);

  [[nodiscard]] Bytes At(const Program& program, std::int64_t batch) const;
  // The event after which the sum is highest.
  [[nodiscard]] std::int32_t EventAt(const Program& program, std::int64_t batch) const;
  [[nodiscard]] std::size_t candidates() const;

 private:
  // Batches from `first` on make the same requests as sample `sample`.
  struct Piece {
    std::int64_t first = 1;
    std::size_t sample = 0;
    std::vector<PeakCandidate> candidates;
  };
  [[nodiscard]] const Piece& PieceOf(std::int64_t batch) const;

  std::vector<Piece> pieces_;  // ascending
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_PEAK_H_
