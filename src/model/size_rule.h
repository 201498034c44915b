// The size of one request as a function of the batch.
#ifndef MEMMODEL_SRC_MODEL_SIZE_RULE_H_
#define MEMMODEL_SRC_MODEL_SIZE_RULE_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "memmodel/memory_model.h"

namespace memmodel {

struct SizeRule {
  static constexpr Bytes kLargest = Bytes{1} << 40;  // of a request; At saturates here

  enum class Kind : char {
    kConstant = 'c',   // c0
    kAffine = 'a',     // c0 + c1 * b
    kQuadratic = 'q',  // c0 + c1 * b + c2 * b * b
    kTable = 't',      // as traced; between and beyond the points a guess: c0 + c1 * b
                       // where a line passes through all, else both are 0
    kPlanned = 'p',    // by pieces at batches 1..last, as cuDNN answered; beyond, as a table
  };
  // bytes + slope * (batch - first), up to the next piece's first batch.
  struct Piece {
    std::int64_t first = 1;
    Bytes bytes = 0, slope = 0;
    auto operator<=>(const Piece&) const = default;
  };
  Kind kind = Kind::kConstant;
  Bytes c0 = 0, c1 = 0, c2 = 0;
  std::vector<BatchBytes> points;  // kTable, kPlanned: ascending batches, at least one
  std::vector<Piece> pieces;       // kPlanned: ascending, the first from 1
  std::int64_t last = 0;           // kPlanned

  // Bytes at a batch >= 1, never negative. A table is interpolated linearly;
  // below its first point it holds that point, above its last it keeps growing
  // as it did between the last two, if it grew.
  [[nodiscard]] Bytes At(std::int64_t batch) const;
  // What the size may be: one value for the exact kinds and at a table's points;
  // else the span of the two points around (beyond the last: from the last
  // point to proportional growth from it).
  [[nodiscard]] ByteRange RangeAt(std::int64_t batch) const;
  [[nodiscard]] bool exact() const { return kind != Kind::kTable; }  // somewhere
  [[nodiscard]] bool ExactAt(std::int64_t batch) const {
    return kind != Kind::kTable && (kind != Kind::kPlanned || batch <= last);
  }
};

bool operator<(const SizeRule& a, const SizeRule& b);

// The simplest rule through all points (distinct batches, ascending, at least
// one): a constant, a line with integer coefficients, a parabola with integer
// coefficients (from four points on, so that one checks it), else a table.
SizeRule FitSizeRule(const std::vector<BatchBytes>& points);

SizeRule TableOf(const std::vector<BatchBytes>& points);

// `answers`: bytes at batch 1, 2, ...; not empty.
SizeRule PlannedOf(const std::vector<BatchBytes>& points, const std::vector<Bytes>& answers);

// As the caching allocator rounds a request by default.
inline Bytes RoundToBlock(Bytes size) { return (size + 511) & ~Bytes{511}; }

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_SIZE_RULE_H_
