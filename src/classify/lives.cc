#include "src/classify/lives.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "src/classify/block_map.h"

namespace memmodel {
namespace {

// When one block carries several tags, the first of these is what it is.
int Rank(TensorRole role) {
  switch (role) {
    case TensorRole::kWeight: return 8;
    case TensorRole::kBuffer: return 7;
    case TensorRole::kLibraryWorkspace: return 6;
    case TensorRole::kOptimizerState: return 5;
    case TensorRole::kInput: return 4;
    case TensorRole::kGradient: return 3;
    case TensorRole::kLoss: return 2;
    case TensorRole::kOutput: return 1;
    case TensorRole::kNone: return 0;
  }
  return 0;
}

class Follower {
 public:
  Follower(const Trace& trace, const AllocatorSettings& settings)
      : trace_(trace), blocks_(settings) {
    for (const Event& event : trace.events) {
      has_completions_ = has_completions_ || event.kind == EventKind::kFreeCompleted;
    }
  }

  Result<History> Run() {
    StartPhase(Phase::kNone);
    for (at_ = 0; at_ < trace_.events.size(); ++at_) {
      if (!Follow(trace_.events[at_])) {
        const Event& event = trace_.events[at_];
        return Status::BadInput("the trace contradicts itself at event " + std::to_string(at_) +
                                " ('" + static_cast<char>(event.kind) + "' of " +
                                std::to_string(event.size) +
                                " bytes): no segment or block is there");
      }
      history_.reserved_peak = std::max(history_.reserved_peak, blocks_.reserved());
    }
    EndPhase();
    return std::move(history_);
  }

 private:
  bool Follow(const Event& event) {
    switch (event.kind) {
      case EventKind::kSegmentAlloc: return blocks_.AddSegment(event.address, event.size);
      case EventKind::kSegmentFree: return blocks_.RemoveSegment(event.address, event.size);
      case EventKind::kSegmentMap: return blocks_.Map(event.address, event.size);
      case EventKind::kSegmentUnmap: return blocks_.Unmap(event.address, event.size);
      case EventKind::kAlloc: return Alloc(event);
      case EventKind::kFree: return Free(event);
      case EventKind::kFreeCompleted: return Complete(event.address);
      case EventKind::kTag: Tag(event); return true;
      case EventKind::kMarker: Mark(trace_.Text(event.text)); return true;
      case EventKind::kContext:
      case EventKind::kOutOfMemory: return true;
    }
    return false;
  }

  bool Alloc(const Event& event) {
    const std::optional<Bytes> bytes = blocks_.Take(event.address, event.size);
    if (!bytes) return false;
    Life life;
    life.made = at_;
    life.bytes = *bytes;
    life.made_in = event.op;
    life.module = event.module;
    life.step = step_;
    life.phase = phase_;
    live_[event.address] = history_.lives.size();
    history_.lives.push_back(life);
    allocated_ += *bytes;
    phase_peak_ = std::max(phase_peak_, allocated_);
    if (allocated_ > history_.allocated_peak) {
      history_.allocated_peak = allocated_;
      history_.peak_event = at_;
    }
    return true;
  }

  bool Free(const Event& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end() || history_.lives[found->second].freed != Life::kNever) return false;
    Life& life = history_.lives[found->second];
    life.freed = at_;
    life.freed_in = event.op;
    allocated_ -= life.bytes;
    return has_completions_ || Complete(event.address);
  }

  bool Complete(std::uint64_t address) {
    const auto found = live_.find(address);
    if (found == live_.end() || history_.lives[found->second].freed == Life::kNever) return false;
    const Bytes bytes = history_.lives[found->second].bytes;
    live_.erase(found);
    return blocks_.Release(address, bytes);
  }

  // A tag for a block that is not live says nothing and harms nothing.
  void Tag(const Event& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end()) return;
    Life& life = history_.lives[found->second];
    if (Rank(event.role) > Rank(life.role)) {
      life.role = event.role;
      life.name = event.text;
    }
  }

  void Mark(std::string_view text) {
    const Phase next = PhaseAfter(text, phase_);
    const bool new_step = text.starts_with(marker::kStepPrefix);
    if (phase_ == Phase::kForward && text == marker::kForwardDone) {
      for (std::size_t i = first_of_forward_; i < history_.lives.size(); ++i) {
        history_.lives[i].forward_end = at_;
      }
    }
    if (next == Phase::kForward) first_of_forward_ = history_.lives.size();
    if (next == phase_ && !new_step) return;
    EndPhase();
    if (new_step) ++step_;
    StartPhase(next);
  }

  void StartPhase(Phase phase) {
    phase_ = phase;
    phase_peak_ = allocated_;
  }

  // Micro-batches of one step go through the same phases: their peaks are joined.
  void EndPhase() {
    if (phase_ == Phase::kNone) return;
    for (PhaseMemory& known : history_.phases) {
      if (known.step == step_ && known.phase == phase_) {
        known.allocated_peak = std::max(known.allocated_peak, phase_peak_);
        known.reserved = blocks_.reserved();
        return;
      }
    }
    history_.phases.push_back({step_, phase_, phase_peak_, blocks_.reserved()});
  }

  const Trace& trace_;
  BlockMap blocks_;
  bool has_completions_ = false;
  History history_;
  std::unordered_map<std::uint64_t, std::size_t> live_;  // address -> index into lives
  std::uint32_t at_ = 0;
  std::int16_t step_ = -1;
  Phase phase_ = Phase::kNone;
  std::size_t first_of_forward_ = 0;
  Bytes allocated_ = 0;
  Bytes phase_peak_ = 0;
};

}  // namespace

Result<History> FollowBlocks(const Trace& trace, const ClassifyOptions& options) {
  Result<AllocatorSettings> settings = ParseAllocatorSettings(options.alloc_conf);
  if (!settings.ok()) return settings.status();
  return Follower(trace, *settings).Run();
}

}  // namespace memmodel
