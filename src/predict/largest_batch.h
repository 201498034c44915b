// The largest batch for which something holds.
#ifndef MEMMODEL_SRC_PREDICT_LARGEST_BATCH_H_
#define MEMMODEL_SRC_PREDICT_LARGEST_BATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memmodel/status.h"

namespace memmodel {

struct Trial {
  bool holds = false;
  // The quantity that the budget limits, if the trial could tell it.
  std::optional<double> measure;
};

struct SearchOptions {
  std::int64_t known_true = 0;                   // it holds here (0: nothing is known to)
  std::optional<std::int64_t> known_false;       // it does not hold here
  std::map<std::int64_t, double> measures;       // of batches tried before
  double budget = 0;                             // it holds about as long as measure <= budget
  std::int64_t largest = std::int64_t{1} << 24;  // not looked beyond
  int side_by_side = 2;                          // trials at once
  // Where to look first, if the caller knows better than a line through few `measures`.
  std::optional<std::int64_t> first_guess;
};

// Tries all of these batches; answers in their order.
using TryBatches = std::function<Result<std::vector<Trial>>(const std::vector<std::int64_t>&)>;

// The largest batch b, 0 <= b <= options.largest, so that it holds at b and not
// at b + 1, both of them tried (0 counts as holding). Where "holds" is not
// monotone this is one such b.
Result<std::int64_t> LargestBatch(const SearchOptions& options, const TryBatches& try_batches);

struct ClimbOptions {
  std::int64_t start = 1;       // tried first
  std::int64_t known_true = 0;  // it holds up to here; not tried
  std::int64_t largest = std::int64_t{1} << 24;
  int side_by_side = 2;
};

// The same, for what is not monotone at all, such as whether an allocator that is near its
// limit finds room: by the trials that a person would make. From `start` in steps of a
// sixteenth of it, which double, until the answer is enclosed; then halving.
Result<std::int64_t> ClimbToLargest(const ClimbOptions& options, const TryBatches& try_batches);

// Where the line through two measured batches meets `budget`; at least 1. `right`'s batch
// if it does not rise.
std::int64_t LineMeets(std::pair<std::int64_t, double> left, std::pair<std::int64_t, double> right,
                       double budget);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_LARGEST_BATCH_H_
