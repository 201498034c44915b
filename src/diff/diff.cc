// Each step of one trace is aligned with the same step of the other by a longest
// common subsequence over (kind, rounded size). What stays unaligned falls into
// hunks between aligned runs. Within a hunk the n-th allocation of A stands for
// the n-th of B: another size there is one difference, not two. The release of a
// block that has no equal counterpart follows from that block and is not counted
// again; the release of a block that has one, at another place, is a difference
// of its own, for it moves what the allocator can reuse.
//
// Example: A  a64 a32 f32 a16      one difference: the 32 of A is 48 in B.
//          B  a64 a48 f48 a16
#include "memmodel/diff.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "src/core/align.h"
#include "src/diff/items.h"

namespace memmodel {
namespace {

class Differ {
 public:
  Differ(const Trace& a, const Trace& b, const DiffOptions& options)
      : a_(a),
        b_(b),
        options_(options),
        items_a_(ItemsOf(a, options.rounding)),
        items_b_(ItemsOf(b, options.rounding)) {}

  TraceDiff Run() {
    const std::size_t parts = std::max(items_a_.parts.size(), items_b_.parts.size());
    for (std::size_t p = options_.skip_load ? 1 : 0; p < parts; ++p) ComparePart(p);
    Summarise();
    diff_.identical = diff_.differences.empty();
    return std::move(diff_);
  }

 private:
  using Part = DiffItems::Part;

  void ComparePart(std::size_t p) {
    static const Part kEmpty;
    const Part& a = p < items_a_.parts.size() ? items_a_.parts[p] : kEmpty;
    const Part& b = p < items_b_.parts.size() ? items_b_.parts[p] : kEmpty;
    part_ = static_cast<std::int32_t>(diff_.parts.size());
    diff_.parts.push_back({.name = a.name.empty() ? b.name : a.name,
                           .requests_a = a.requests,
                           .requests_b = b.requests,
                           .peak_a = a.peak,
                           .peak_b = b.peak});
    last_ = {};
    std::size_t i = 0, j = 0;
    for (const AlignedRun& run : Align(a.tokens, b.tokens)) {
      Hunk(a, i, run.a_begin, b, j, run.b_begin);
      for (std::size_t k = 0; k < run.length; ++k) {
        Matched(a.items[run.a_begin + k], b.items[run.b_begin + k]);
      }
      i = run.a_begin + run.length;
      j = run.b_begin + run.length;
    }
    Hunk(a, i, a.items.size(), b, j, b.items.size());
  }

  [[nodiscard]] const Event& EventA(std::int64_t i) const {
    return a_.events[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] const Event& EventB(std::int64_t i) const {
    return b_.events[static_cast<std::size_t>(i)];
  }

  void Matched(const DiffItem& a, const DiffItem& b) {
    const Event& event_a = EventA(a.event);
    Remember(a.event, b.event);
    if (event_a.kind == EventKind::kAlloc) {
      partner_of_a_[a.event] = b.event;
      partner_of_b_[b.event] = a.event;
      ++diff_.parts.back().matched;
    } else if (event_a.kind == EventKind::kFree) {
      // Of equal size, yet perhaps not the same block.
      const auto partner = partner_of_a_.find(a.block);
      if (partner != partner_of_a_.end() && partner->second != b.block) Order(a, b.event);
    }
  }

  // Keeps who asked last, for events of a trace without operators.
  void Remember(std::int64_t a, std::int64_t b) {
    if (a >= 0 && EventA(a).op != OperatorId::kNone) last_ = ContextOf(a_, EventA(a));
    if (b >= 0 && EventB(b).op != OperatorId::kNone) last_ = ContextOf(b_, EventB(b));
  }

  static DiffContext ContextOf(const Trace& trace, const Event& event) {
    return {std::string(trace.OperatorName(event.op)), std::string(trace.ModulePath(event.module)),
            false};
  }

  [[nodiscard]] DiffContext Context(std::int64_t a, std::int64_t b) const {
    if (a >= 0 && EventA(a).op != OperatorId::kNone) return ContextOf(a_, EventA(a));
    if (b >= 0 && EventB(b).op != OperatorId::kNone) return ContextOf(b_, EventB(b));
    DiffContext inferred = last_;
    inferred.inferred = !inferred.operator_name.empty();
    return inferred;
  }

  void Add(DifferenceKind kind, Phase phase, std::int64_t a, std::int64_t b,
           std::string marker = {}) {
    Difference d{.kind = kind,
                 .part = part_,
                 .phase = phase,
                 .event_a = a,
                 .event_b = b,
                 .bytes_a = a >= 0 ? EventA(a).size : 0,
                 .bytes_b = b >= 0 ? EventB(b).size : 0,
                 .marker = std::move(marker),
                 .context = Context(a, b)};
    ++diff_.parts.back().differences;
    diff_.differences.push_back(std::move(d));
  }

  void Order(const DiffItem& a, std::int64_t event_b) {
    if (!ordered_.insert(a.block).second) return;
    Add(DifferenceKind::kOrder, a.phase, a.event, event_b);
  }

  void Hunk(const Part& a, std::size_t a_begin, std::size_t a_end, const Part& b,
            std::size_t b_begin, std::size_t b_end) {
    std::vector<DiffItem> from_a, from_b;
    for (std::size_t i = a_begin; i < a_end; ++i) {
      if (EventA(a.items[i].event).kind == EventKind::kAlloc) from_a.push_back(a.items[i]);
    }
    for (std::size_t j = b_begin; j < b_end; ++j) {
      if (EventB(b.items[j].event).kind == EventKind::kAlloc) from_b.push_back(b.items[j]);
    }
    for (std::size_t k = 0; k < std::max(from_a.size(), from_b.size()); ++k) {
      Requests(k < from_a.size() ? &from_a[k] : nullptr, k < from_b.size() ? &from_b[k] : nullptr);
    }
    for (std::size_t i = a_begin; i < a_end; ++i) ReleaseOrMarkerOfA(a.items[i]);
    for (std::size_t j = b_begin; j < b_end; ++j) ReleaseOrMarkerOfB(b.items[j]);
  }

  void Requests(const DiffItem* a, const DiffItem* b) {
    if (a == nullptr) return Add(DifferenceKind::kOnlyB, b->phase, -1, b->event);
    if (b == nullptr) return Add(DifferenceKind::kOnlyA, a->phase, a->event, -1);
    const bool same = RoundToMultiple(EventA(a->event).size, options_.rounding) ==
                      RoundToMultiple(EventB(b->event).size, options_.rounding);
    Remember(a->event, b->event);
    if (same) {  // the same request on the other side of a release
      partner_of_a_[a->event] = b->event;
      partner_of_b_[b->event] = a->event;
    }
    Add(same ? DifferenceKind::kOrder : DifferenceKind::kSize, a->phase, a->event, b->event);
  }

  void ReleaseOrMarkerOfA(const DiffItem& item) {
    const Event& event = EventA(item.event);
    if (event.kind == EventKind::kMarker) {
      Add(DifferenceKind::kMarker, item.phase, item.event, -1, std::string(a_.Text(event.text)));
    } else if (event.kind == EventKind::kFree) {
      const auto partner = partner_of_a_.find(item.block);
      if (partner == partner_of_a_.end()) return;
      Order(item, items_b_.released_at[static_cast<std::size_t>(partner->second)]);
    }
  }

  void ReleaseOrMarkerOfB(const DiffItem& item) {
    const Event& event = EventB(item.event);
    if (event.kind == EventKind::kMarker) {
      Add(DifferenceKind::kMarker, item.phase, -1, item.event, std::string(b_.Text(event.text)));
    } else if (event.kind == EventKind::kFree) {
      const auto partner = partner_of_b_.find(item.block);
      if (partner == partner_of_b_.end() || !ordered_.insert(partner->second).second) return;
      Add(DifferenceKind::kOrder, item.phase,
          items_a_.released_at[static_cast<std::size_t>(partner->second)], item.event);
    }
  }

  void Summarise() {
    std::map<std::pair<std::string_view, std::string_view>, DiffGroup> groups;
    for (const Difference& d : diff_.differences) {
      if (d.kind == DifferenceKind::kMarker) continue;
      OperatorGroup key = GroupOfOperator(d.context.operator_name);
      // torch.optim's states come from plain factories: aten::empty_strided.
      if (d.phase == Phase::kOptimizer && key.library == "PyTorch") key.family = "optimizer";
      DiffGroup& group = groups[{key.family, key.library}];
      group.family = key.family;
      group.library = key.library;
      group.size += d.kind == DifferenceKind::kSize;
      group.only_a += d.kind == DifferenceKind::kOnlyA;
      group.only_b += d.kind == DifferenceKind::kOnlyB;
      group.order += d.kind == DifferenceKind::kOrder;
      if (d.kind == DifferenceKind::kOrder) continue;
      group.bytes_a += d.bytes_a;
      group.bytes_b += d.bytes_b;
    }
    for (auto& [key, group] : groups) diff_.groups.push_back(std::move(group));
    const auto count = [](const DiffGroup& g) { return g.size + g.only_a + g.only_b + g.order; };
    std::stable_sort(diff_.groups.begin(), diff_.groups.end(),
                     [&](const DiffGroup& x, const DiffGroup& y) { return count(x) > count(y); });
  }

  const Trace& a_;
  const Trace& b_;
  DiffOptions options_;
  DiffItems items_a_, items_b_;
  TraceDiff diff_;
  std::int32_t part_ = 0;
  DiffContext last_;
  // Allocating events that stand for each other.
  std::unordered_map<std::int64_t, std::int64_t> partner_of_a_, partner_of_b_;
  std::unordered_set<std::int64_t> ordered_;  // blocks of A already reported as kOrder
};

bool HasRequests(const Trace& trace) {
  return std::any_of(trace.events.begin(), trace.events.end(),
                     [](const Event& e) { return e.kind == EventKind::kAlloc; });
}

}  // namespace

std::string_view DifferenceKindName(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kSize:
      return "size";
    case DifferenceKind::kOnlyA:
      return "only_a";
    case DifferenceKind::kOnlyB:
      return "only_b";
    case DifferenceKind::kOrder:
      return "order";
    case DifferenceKind::kMarker:
      return "marker";
  }
  return "";
}

Result<TraceDiff> DiffTraces(const Trace& a, const Trace& b, const DiffOptions& options) {
  if (options.rounding < 1) {
    return Status::InvalidArgument("rounding is " + std::to_string(options.rounding) +
                                   ", it must be at least 1 byte");
  }
  if (!HasRequests(a)) return Status::BadInput("the first trace holds no requests");
  if (!HasRequests(b)) return Status::BadInput("the second trace holds no requests");
  return Differ(a, b, options).Run();
}

}  // namespace memmodel
