// Memory is nearly affine in the batch, so a straight line through two measured
// batches lands within a few of the answer, and its neighbour decides it. Where it
// misses, the other side is sought from there in steps that double, each answer
// mending the line; once the answer is enclosed, the line is followed inside, and
// whenever that did not halve what was left, the interval is cut itself.
//
// A guess of the caller's is better than a line at first.
//
// Example: 2.0 GB at batch 8 and 6.8 GB at 32, budget 19.2 GB: the line says 94.
// 94 and 95 are tried side by side; if 94 holds and 95 does not, that is all.
#include "src/predict/largest_batch.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace memmodel {
namespace {

class Search {
 public:
  Search(const SearchOptions& options, const TryBatches& try_batches)
      : options_(options),
        try_(try_batches),
        measures_(options.measures),
        low_(options.known_true),
        high_(options.known_false) {}

  Result<std::int64_t> Run() {
    std::int64_t step = 1;
    bool cut = false;
    while (!(high_ && *high_ == low_ + 1) && low_ < options_.largest) {
      const std::int64_t width = Width();
      std::optional<std::int64_t> guess = cut ? std::nullopt : Guess();
      if (guess && high_tried_ != low_tried_) {
        *guess = high_tried_ ? std::min(*guess, *high_ - step) : std::max(*guess, low_ + step);
        step *= 2;
      }
      Result<std::vector<Trial>> trials = Try(guess ? Around(*guess) : Cut());
      if (!trials.ok()) return trials.status();
      cut = guess.has_value() && high_tried_ && low_tried_ && Width() > width / 2;
    }
    return low_;
  }

 private:
  [[nodiscard]] std::int64_t Top() const { return high_.value_or(options_.largest + 1); }
  [[nodiscard]] std::int64_t Width() const { return Top() - low_; }

  // Where the line through the two measured batches nearest to the budget meets it.
  [[nodiscard]] std::optional<std::int64_t> Guess() const {
    if (options_.first_guess && !high_tried_ && !low_tried_) return options_.first_guess;
    if (measures_.size() < 2) return std::nullopt;
    auto right = std::find_if(measures_.begin(), measures_.end(),
                              [this](const auto& m) { return m.second > options_.budget; });
    if (right == measures_.end()) --right;
    if (right == measures_.begin()) ++right;
    const auto left = std::prev(right);
    if (!(right->second > left->second)) return std::nullopt;
    // Far beyond what was measured a line is no more than a direction.
    return std::min(LineMeets(*left, *right, options_.budget), 64 * measures_.rbegin()->first);
  }

  // `guess` and the next, or the two that lie inside the interval nearest to it.
  [[nodiscard]] std::vector<std::int64_t> Around(std::int64_t guess) const {
    const std::int64_t first = std::clamp(guess, low_ + 1, Top() - 1);
    if (options_.side_by_side < 2) return {first};
    if (first + 1 < Top()) return {first, first + 1};
    return first - 1 > low_ ? std::vector<std::int64_t>{first - 1, first}
                            : std::vector<std::int64_t>{first};
  }

  [[nodiscard]] std::vector<std::int64_t> Cut() const {
    std::vector<std::int64_t> batches;
    const int n = std::max(1, options_.side_by_side);
    for (int i = 1; i <= n; ++i) {
      const std::int64_t step =
          high_ ? (*high_ - low_) * i / (n + 1) : std::max<std::int64_t>(low_, 1) * ((1 << i) - 1);
      const std::int64_t batch = std::clamp(low_ + step, low_ + 1, Top() - 1);
      if (batches.empty() || batch > batches.back()) batches.push_back(batch);
    }
    return batches;
  }

  Result<std::vector<Trial>> Try(const std::vector<std::int64_t>& batches) {
    Result<std::vector<Trial>> trials = try_(batches);
    if (!trials.ok()) return trials;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Trial& trial = (*trials)[i];
      if (trial.measure) measures_[batches[i]] = *trial.measure;
      if (trial.holds && batches[i] < Top()) {
        low_ = std::max(low_, batches[i]);
        low_tried_ = true;
      }
      if (!trial.holds && batches[i] > low_) {
        high_ = std::min(Top(), batches[i]);
        high_tried_ = true;
      }
    }
    return trials;
  }

  const SearchOptions& options_;
  const TryBatches& try_;
  std::map<std::int64_t, double> measures_;
  std::int64_t low_;
  std::optional<std::int64_t> high_;
  bool low_tried_ = false;  // by this search, near the answer
  bool high_tried_ = false;
};

class Climb {
 public:
  Climb(const ClimbOptions& options, const TryBatches& try_batches)
      : options_(options), try_(try_batches) {}

  Result<std::int64_t> Run() {
    std::int64_t low = 0;                      // it holds here
    std::int64_t high = options_.largest + 1;  // it does not hold here
    std::int64_t batch = std::clamp<std::int64_t>(options_.start, 1, options_.largest);
    std::int64_t step = std::max<std::int64_t>(1, batch / 16);
    while (high - low > 1) {
      const bool open = high > options_.largest;
      // What comes next if it holds.
      const std::int64_t next = open ? batch + step : batch + (high - batch) / 2;
      Result<bool> holds = Holds(batch, std::min(next, options_.largest));
      if (!holds.ok()) return holds.status();
      (*holds ? low : high) = batch;
      if (high > options_.largest) {
        batch = std::min(low + step, options_.largest);
        step *= 2;
      } else if (low == 0) {
        batch = std::max<std::int64_t>(1, high - step);
        step *= 2;
      } else {
        batch = low + (high - low) / 2;
      }
    }
    return low;
  }

 private:
  // `next` is tried beside it, if there is a place.
  Result<bool> Holds(std::int64_t batch, std::int64_t next) {
    if (batch <= options_.known_true) return true;
    if (const auto known = known_.find(batch); known != known_.end()) return known->second;
    std::vector<std::int64_t> batches{batch};
    if (options_.side_by_side > 1 && next > batch && !known_.contains(next)) {
      batches.push_back(next);
    }
    Result<std::vector<Trial>> trials = try_(batches);
    if (!trials.ok()) return trials.status();
    for (std::size_t i = 0; i < batches.size(); ++i) known_[batches[i]] = (*trials)[i].holds;
    return trials->front().holds;
  }

  const ClimbOptions& options_;
  const TryBatches& try_;
  std::map<std::int64_t, bool> known_;
};

}  // namespace

Result<std::int64_t> ClimbToLargest(const ClimbOptions& options, const TryBatches& try_batches) {
  return Climb(options, try_batches).Run();
}

std::int64_t LineMeets(std::pair<std::int64_t, double> left, std::pair<std::int64_t, double> right,
                       double budget) {
  if (right.first <= left.first || right.second <= left.second) return right.first;
  const double slope = (right.second - left.second) / static_cast<double>(right.first - left.first);
  const double at = static_cast<double>(right.first) + (budget - right.second) / slope;
  return static_cast<std::int64_t>(std::clamp(at, 1.0, 1e12));
}

Result<std::int64_t> LargestBatch(const SearchOptions& options, const TryBatches& try_batches) {
  return Search(options, try_batches).Run();
}

}  // namespace memmodel
