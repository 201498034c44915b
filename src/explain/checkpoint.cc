// Within each forward pass a block's part is the stretch from the first to the
// last request inside it, up to the first of another block: a path that comes back
// later (containers that share it) is another stretch, and backward meets the
// stretches in reverse. What was requested there and outlives the stretch is
// kept for backward; of these the last request is taken for the block's result,
// which the next block needs, and stays. The others are released at the end of
// the stretch. Before the first request inside the block in backward, the whole
// stretch is replayed: its short-lived requests come and go as they did, the kept
// ones take the place of those that were released, and the result, which is made
// once more and not needed, goes at once.
//
// Example: forward a1 a2 f1 a3 | backward ... f2 f3: kept are 2 and 3, 3 is the
// result. With a checkpoint: a1 a2 f1 a3 f2 | a1' a2' f1' a3' f3' ... f2' f3.
#include "src/explain/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

namespace memmodel {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// A request and its release as indices into Trace::events.
struct Life {
  std::size_t made = kNone, freed = kNone;
};

struct Stretch {
  std::string block;
  std::size_t first = kNone, last = kNone;  // requests inside the block in this forward
  std::size_t backward = kNone;             // the first request inside it in the backward after
  std::vector<std::size_t> lives;           // made within [first, last]
};

class Checkpointer {
 public:
  explicit Checkpointer(const Trace& trace) : trace_(trace) {}

  Trace Run() {
    FindLives();
    FindStretches();
    Plan();
    return Emit();
  }

 private:
  void FindLives() {
    std::unordered_map<std::uint64_t, std::size_t> live;
    life_of_.assign(trace_.events.size(), kNone);
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == EventKind::kAlloc) {
        live[event.address] = lives_.size();
        life_of_[i] = lives_.size();
        lives_.push_back({i, kNone});
      } else if (event.kind == EventKind::kFree) {
        const auto found = live.find(event.address);
        if (found == live.end()) continue;
        life_of_[i] = found->second;
        lives_[found->second].freed = i;
        live.erase(found);
      }
    }
  }

  void FindStretches() {
    Phase phase = Phase::kNone;
    phase_of_.resize(trace_.events.size());
    // Block -> its stretches of the latest forward that backward has not met yet.
    std::map<std::string, std::vector<std::size_t>> open;
    std::string last_block;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      phase_of_[i] = phase;
      if (event.kind == EventKind::kMarker) {
        const Phase next = PhaseAfter(trace_.Text(event.text), phase);
        if (next == Phase::kForward && phase != Phase::kForward) open.clear();
        if (next != phase) last_block.clear();
        phase = next;
        continue;
      }
      if (event.kind != EventKind::kAlloc || event.module == ModuleId::kNone) continue;
      const std::string block = BlockOf(trace_.ModulePath(event.module));
      if (block.empty()) continue;
      if (phase == Phase::kForward) {
        if (block != last_block) {
          open[block].push_back(stretches_.size());
          stretches_.push_back({.block = block, .first = i});
        }
        stretches_[open[block].back()].last = i;
      } else if (phase == Phase::kBackward && block != last_block && !open[block].empty()) {
        stretches_[open[block].back()].backward = i;
        open[block].pop_back();
      }
      last_block = block;
    }
  }

  void Plan() {
    for (Stretch& stretch : stretches_) {
      if (stretch.backward == kNone) continue;
      std::size_t result = kNone;
      std::size_t kept = 0;
      for (std::size_t i = stretch.first; i <= stretch.last; ++i) {
        if (trace_.events[i].kind != EventKind::kAlloc) continue;
        stretch.lives.push_back(life_of_[i]);
        if (lives_[life_of_[i]].freed <= stretch.last) continue;
        result = life_of_[i];
        ++kept;
      }
      if (kept < 2) continue;
      for (const std::size_t life : stretch.lives) {
        const std::size_t freed = lives_[life].freed;
        // Kept for this block's backward is what backward releases, and not before.
        if (life == result || freed == kNone || freed <= stretch.backward) continue;
        if (phase_of_[freed] != Phase::kBackward) continue;
        release_after_[stretch.last].push_back(life);
        replayed_[life] = true;
      }
      replay_before_[stretch.backward].push_back(&stretch);
    }
  }

  void Add(Trace* out, const Event& event, std::size_t id, EventKind kind) const {
    Event copy = event;
    copy.kind = kind;
    copy.address = id + 1;
    out->events.push_back(copy);
    if (kind == EventKind::kFree) {
      copy.kind = EventKind::kFreeCompleted;
      out->events.push_back(copy);
    }
  }

  void Replay(const Stretch& stretch, std::size_t* next_id, Trace* out) {
    std::unordered_map<std::size_t, std::size_t> again;  // life -> id of its second allocation
    for (std::size_t i = stretch.first; i <= stretch.last; ++i) {
      const std::size_t life = life_of_[i];
      const EventKind kind = trace_.events[i].kind;
      if (life == kNone) continue;
      if (kind == EventKind::kAlloc) {
        again[life] = (*next_id)++;
        Add(out, trace_.events[i], again[life], kind);
      } else if (again.contains(life)) {
        Add(out, trace_.events[i], again[life], kind);
        again.erase(life);
      }
    }
    for (const auto& [life, id] : again) {
      if (replayed_.contains(life)) {
        id_[life] = id;  // the original's release is now this one's
      } else {
        Add(out, trace_.events[lives_[life].made], id, EventKind::kFree);
      }
    }
  }

  Trace Emit() {
    Trace out;
    out.metadata = trace_.metadata;
    out.operators = trace_.operators;
    out.modules = trace_.modules;
    out.texts = trace_.texts;
    std::size_t next_id = lives_.size();
    for (std::size_t life = 0; life < lives_.size(); ++life) id_.push_back(life);
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (const auto it = replay_before_.find(i); it != replay_before_.end()) {
        for (const Stretch* stretch : it->second) Replay(*stretch, &next_id, &out);
      }
      const Event& event = trace_.events[i];
      if (event.kind == EventKind::kMarker || event.kind == EventKind::kContext) {
        out.events.push_back(event);
      }
      if (life_of_[i] != kNone) Add(&out, event, id_[life_of_[i]], event.kind);
      if (const auto it = release_after_.find(i); it != release_after_.end()) {
        for (const std::size_t life : it->second) {
          Add(&out, trace_.events[lives_[life].made], id_[life], EventKind::kFree);
        }
      }
    }
    return out;
  }

  const Trace& trace_;
  std::vector<Life> lives_;
  std::vector<std::size_t> life_of_;  // one an event; kNone for others
  std::vector<Phase> phase_of_;
  std::vector<Stretch> stretches_;
  std::map<std::size_t, std::vector<std::size_t>> release_after_;     // event -> lives
  std::map<std::size_t, std::vector<const Stretch*>> replay_before_;  // event -> stretches
  std::unordered_map<std::size_t, bool> replayed_;
  std::vector<std::size_t> id_;
};

}  // namespace

std::string BlockOf(std::string_view path) {
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (std::isdigit(static_cast<unsigned char>(path[end - 1])) && end > begin) {
      const std::string_view part = path.substr(begin, end - begin);
      const std::size_t digits = part.find_last_not_of("0123456789") + 1;
      // "0" and "encoder_layer_3" count a repetition; "conv1" names a layer.
      if (digits == 0 || part[digits - 1] == '_') return std::string(path.substr(0, end));
    }
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> BlocksOf(const Trace& trace) {
  std::vector<std::string> blocks;
  Phase phase = Phase::kNone;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kMarker) phase = PhaseAfter(trace.Text(event.text), phase);
    if (event.kind != EventKind::kAlloc || phase != Phase::kForward) continue;
    std::string block = BlockOf(trace.ModulePath(event.module));
    if (block.empty() || std::find(blocks.begin(), blocks.end(), block) != blocks.end()) continue;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

Trace WithCheckpoints(const Trace& trace) { return Checkpointer(trace).Run(); }

}  // namespace memmodel
