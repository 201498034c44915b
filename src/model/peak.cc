// After every event the sum of the live requests is a sum of size rules. Nearly
// all are lines in multiples of 512 bytes, so the sum is one line and a few
// rules that need rounding. The peak is the upper envelope of these sums, and of
// thousands of events only a few ever reach it.
//
// They are found by evaluating all events at some batches: if the same event is
// highest at two batches, it is highest between them too, since the sums are
// lines (up to rounding, less than 512 bytes a block); if two differ, the interval
// is halved, until neighbouring batches or a bound on the work is reached.
//
// Example: sums 100 + 1 b and 10 + 10 b: the first is the peak at b = 1, the
// second at b = 16; halving finds that they meet at b = 10.
#include "src/model/peak.h"

#include <algorithm>
#include <map>
#include <set>

namespace memmodel {
namespace {

constexpr std::int64_t kMostPlanned = 1024;
constexpr int kMostEvaluations = 200;  // for each piece; each walks all events once

// The smallest batch for which Program::Nearest chooses `high` over `low`.
std::int64_t FirstNearer(const Program& program, std::size_t low, std::size_t high) {
  std::int64_t a = program.batches[low], b = program.batches[high];
  while (b - a > 1) {
    const std::int64_t middle = a + (b - a) / 2;
    (program.Nearest(middle) >= high ? b : a) = middle;
  }
  return b;
}

class PieceBuilder {
 public:
  PieceBuilder(const Program& program, std::size_t sample) : program_(program) {
    for (std::size_t i = 0; i < program.events.size(); ++i) {
      const ProgramEvent& event = program.events[i];
      if (((event.mask >> sample) & 1) == 0) continue;
      const auto index = static_cast<std::int32_t>(i);
      if (event.kind == EventKind::kAlloc) steps_.push_back({index, event.target, 1});
      if (event.kind == EventKind::kFree) {
        steps_.push_back(
            {index, program.events[static_cast<std::size_t>(event.target)].target, -1});
      }
    }
    sizes_.resize(program.rules.size());
  }

  std::vector<PeakCandidate> Build(std::int64_t first, std::int64_t last) {
    // Tables bend at the traced batches, so no interval spans one; planned workspaces
    // may at any batch that they know.
    std::set<std::int64_t> bends = {first, last};
    for (const std::int64_t batch : program_.batches) {
      if (batch > first && batch < last) bends.insert(batch);
    }
    std::int64_t planned = 0;
    for (const SizeRule& rule : program_.rules) planned = std::max(planned, rule.last);
    planned = std::min(planned, kMostPlanned);
    for (std::int64_t b = first + 1; b < last && b <= planned; ++b) bends.insert(b);
    const std::vector<std::int64_t> ends(bends.begin(), bends.end());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const std::int32_t high = Highest(ends[i]);
      if (i > 0) Bisect(ends[i - 1], Highest(ends[i - 1]), ends[i], high);
    }
    std::vector<PeakCandidate> candidates;
    for (const std::int32_t event : found_) candidates.push_back(Candidate(event));
    return candidates;
  }

 private:
  struct Step {
    std::int32_t event, rule, sign;
  };

  std::int32_t Highest(std::int64_t batch) {
    for (std::size_t r = 0; r < sizes_.size(); ++r) {
      sizes_[r] = RoundToBlock(program_.rules[r].At(batch));
    }
    Bytes sum = 0, best = -1;
    std::int32_t event = 0;
    for (const Step& step : steps_) {
      sum += step.sign * sizes_[static_cast<std::size_t>(step.rule)];
      if (sum > best) {
        best = sum;
        event = step.event;
      }
    }
    if (std::find(found_.begin(), found_.end(), event) == found_.end()) found_.push_back(event);
    return event;
  }

  void Bisect(std::int64_t low, std::int32_t at_low, std::int64_t high, std::int32_t at_high) {
    if (at_low == at_high || high - low < 2 || evaluations_ >= kMostEvaluations) return;
    const std::int64_t middle = low + (high - low) / 2;
    ++evaluations_;
    const std::int32_t at_middle = Highest(middle);
    Bisect(low, at_low, middle, at_middle);
    Bisect(middle, at_middle, high, at_high);
  }

  [[nodiscard]] PeakCandidate Candidate(std::int32_t event) const {
    PeakCandidate candidate{.event = event};
    std::map<std::int32_t, std::int32_t> live;
    for (const Step& step : steps_) {
      live[step.rule] += step.sign;
      if (step.event == event) break;
    }
    for (const auto& [index, count] : live) {
      if (count == 0) continue;
      const SizeRule& rule = program_.rules[static_cast<std::size_t>(index)];
      if (rule.kind == SizeRule::Kind::kConstant) {
        candidate.constant += count * RoundToBlock(rule.c0);
      } else if (rule.kind == SizeRule::Kind::kAffine && rule.c0 % 512 == 0 && rule.c1 % 512 == 0 &&
                 rule.c0 >= 0 && rule.c1 >= 0) {
        candidate.constant += count * rule.c0;
        candidate.slope += count * rule.c1;
      } else {
        candidate.others.emplace_back(index, count);
      }
    }
    return candidate;
  }

  const Program& program_;
  std::vector<Step> steps_;
  std::vector<Bytes> sizes_;
  std::vector<std::int32_t> found_;
  int evaluations_ = 0;
};

Bytes Value(const Program& program, const PeakCandidate& candidate, std::int64_t batch) {
  __int128 sum = candidate.constant + static_cast<__int128>(candidate.slope) * batch;
  for (const auto& [rule, count] : candidate.others) {
    sum += count * RoundToBlock(program.rules[static_cast<std::size_t>(rule)].At(batch));
  }
  return static_cast<Bytes>(std::min<__int128>(sum, Bytes{1} << 62));
}

}  // namespace

PeakEnvelope::PeakEnvelope(const Program& program) {
  pieces_.push_back({.first = 1, .sample = 0});
  for (std::size_t s = 1; s < program.batches.size(); ++s) {
    if (program.SameRequests(s - 1, s)) continue;
    pieces_.push_back({.first = FirstNearer(program, s - 1, s), .sample = s});
  }
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const std::int64_t last =
        p + 1 < pieces_.size() ? pieces_[p + 1].first - 1 : MemoryModel::kLargestBatch;
    PieceBuilder builder(program, pieces_[p].sample);
    pieces_[p].candidates = builder.Build(pieces_[p].first, std::max(last, pieces_[p].first));
  }
}

const PeakEnvelope::Piece& PeakEnvelope::PieceOf(std::int64_t batch) const {
  const auto it = std::upper_bound(pieces_.begin(), pieces_.end(), batch,
                                   [](std::int64_t b, const Piece& p) { return b < p.first; });
  return it == pieces_.begin() ? *it : *(it - 1);
}

Bytes PeakEnvelope::At(const Program& program, std::int64_t batch) const {
  Bytes best = 0;
  for (const PeakCandidate& candidate : PieceOf(batch).candidates) {
    best = std::max(best, Value(program, candidate, batch));
  }
  return best;
}

std::int32_t PeakEnvelope::EventAt(const Program& program, std::int64_t batch) const {
  Bytes best = -1;
  std::int32_t event = 0;
  for (const PeakCandidate& candidate : PieceOf(batch).candidates) {
    const Bytes value = Value(program, candidate, batch);
    if (value > best || (value == best && candidate.event < event)) {
      best = value;
      event = candidate.event;
    }
  }
  return event;
}

std::size_t PeakEnvelope::candidates() const {
  std::size_t count = 0;
  for (const Piece& piece : pieces_) count += piece.candidates.size();
  return count;
}

}  // namespace memmodel
