// E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1
// (1986), in its linear-space form: the middle of a shortest edit script is
// searched from both ends at once, and the two halves are aligned in turn.
//
// In the grid with a along x and b along y, diagonal k is x - y = k; a step right
// deletes from a, a step down takes from b, a diagonal step keeps. forward[k] is
// the furthest x that d steps from the start reach on diagonal k, backward[k] the
// nearest to the start that d steps from the end reach. As soon as they meet on a
// diagonal, that point lies on a shortest script.
//
// Example: a = ABCABBA, b = CBABAC has a script of 5 edits; the searches meet
// after 3 forward and 2 backward edits, and the common subsequence has length 4.
#include "src/core/align.h"

#include <algorithm>

namespace memmodel {
namespace {

class Aligner {
 public:
  Aligner(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b, std::size_t effort)
      : a_(a), b_(b), effort_(static_cast<long>(std::max<std::size_t>(effort, 1))) {
    const std::size_t diagonals = a.size() + b.size() + 3;
    forward_.resize(diagonals);
    backward_.resize(diagonals);
    offset_ = static_cast<long>(b.size()) + 1;
  }

  std::vector<AlignedRun> Run() {
    Compare(0, static_cast<long>(a_.size()), 0, static_cast<long>(b_.size()));
    return std::move(runs_);
  }

 private:
  struct Point {
    long x, y;
  };

  [[nodiscard]] bool Same(long x, long y) const {
    return a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(y)];
  }
  long& Forward(long k) { return forward_[static_cast<std::size_t>(k + offset_)]; }
  long& Backward(long k) { return backward_[static_cast<std::size_t>(k + offset_)]; }

  void Keep(long x, long y, long length) {
    if (length == 0) return;
    const auto ux = static_cast<std::size_t>(x);
    const auto uy = static_cast<std::size_t>(y);
    if (!runs_.empty() && runs_.back().a_begin + runs_.back().length == ux &&
        runs_.back().b_begin + runs_.back().length == uy) {
      runs_.back().length += static_cast<std::size_t>(length);
    } else {
      runs_.push_back({ux, uy, static_cast<std::size_t>(length)});
    }
  }

  // Aligns a[x0, x1) with b[y0, y1), appending runs in order. The recursion halves
  // the edits each time, so it is as deep as their logarithm.
  void Compare(long x0, long x1, long y0, long y1) {
    long prefix = 0;
    while (x0 + prefix < x1 && y0 + prefix < y1 && Same(x0 + prefix, y0 + prefix)) ++prefix;
    Keep(x0, y0, prefix);
    x0 += prefix;
    y0 += prefix;
    long suffix = 0;
    while (x1 - suffix > x0 && y1 - suffix > y0 && Same(x1 - suffix - 1, y1 - suffix - 1)) {
      ++suffix;
    }
    x1 -= suffix;
    y1 -= suffix;
    if (x0 < x1 && y0 < y1) {
      const Point middle = Middle(x0, x1, y0, y1);
      // A middle at a corner cannot split the box; there is nothing in common.
      const bool splits =
          !(middle.x == x0 && middle.y == y0) && !(middle.x == x1 && middle.y == y1);
      if (splits) {
        Compare(x0, middle.x, y0, middle.y);
        Compare(middle.x, x1, middle.y, y1);
      }
    }
    Keep(x1, y1, suffix);
  }

  Point Middle(long x0, long x1, long y0, long y1) {
    const long lowest = x0 - y1;
    const long highest = x1 - y0;
    const long forward_middle = x0 - y0;
    const long backward_middle = x1 - y1;
    const bool odd = ((forward_middle - backward_middle) & 1) != 0;
    long forward_low = forward_middle, forward_high = forward_middle;
    long backward_low = backward_middle, backward_high = backward_middle;
    Forward(forward_middle) = x0;
    Backward(backward_middle) = x1;
    for (long cost = 1;; ++cost) {
      // Diagonals outside the box are fenced off with values no step can use.
      if (forward_low > lowest)
        Forward(--forward_low - 1) = -1;
      else
        ++forward_low;
      if (forward_high < highest)
        Forward(++forward_high + 1) = -1;
      else
        --forward_high;
      for (long k = forward_high; k >= forward_low; k -= 2) {
        const long down = Forward(k + 1), right = Forward(k - 1);
        long x = down > right ? down : right + 1;
        while (x < x1 && x - k < y1 && Same(x, x - k)) ++x;
        Forward(k) = x;
        if (odd && backward_low <= k && k <= backward_high && Backward(k) <= x) return {x, x - k};
      }
      if (backward_low > lowest)
        Backward(--backward_low - 1) = kFar;
      else
        ++backward_low;
      if (backward_high < highest)
        Backward(++backward_high + 1) = kFar;
      else
        --backward_high;
      for (long k = backward_high; k >= backward_low; k -= 2) {
        const long up = Backward(k - 1), left = Backward(k + 1);
        long x = up < left ? up : left - 1;
        while (x > x0 && x - k > y0 && Same(x - 1, x - k - 1)) --x;
        Backward(k) = x;
        if (!odd && forward_low <= k && k <= forward_high && x <= Forward(k)) return {x, x - k};
      }
      if (cost >= effort_) return Furthest(x0, x1, y0, y1, forward_low, forward_high);
    }
  }

  // The search was cut: split where the forward search got furthest.
  Point Furthest(long x0, long x1, long y0, long y1, long low, long high) {
    Point best{x0, y0};
    for (long k = high; k >= low; k -= 2) {
      const long x = std::min(Forward(k), x1);
      const long y = std::min(x - k, y1);
      if (x >= x0 && y >= y0 && y + k == x && x + y > best.x + best.y) best = {x, y};
    }
    return best;
  }

  static constexpr long kFar = 1L << 60;

  std::span<const std::uint64_t> a_, b_;
  long effort_;
  long offset_ = 0;
  std::vector<long> forward_, backward_;
  std::vector<AlignedRun> runs_;
};

}  // namespace

std::vector<AlignedRun> Align(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                              std::size_t effort) {
  return Aligner(a, b, effort).Run();
}

}  // namespace memmodel
