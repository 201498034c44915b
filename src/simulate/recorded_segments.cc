#include "src/simulate/recorded_segments.h"

#include <algorithm>
#include <cstdio>

#include "src/simulate/allocator_core.h"

namespace memmodel {
namespace {

// Addresses of the fallback lie below this, recorded ones may lie anywhere, so
// a fallback address could repeat a recorded one only after 2^44 bytes.
std::string Describe(char kind, std::uint64_t address, Bytes size) {
  char text[64];
  std::snprintf(text, sizeof text, "%c %llx %lld", kind, static_cast<unsigned long long>(address),
                static_cast<long long>(size));
  return text;
}

}  // namespace

RecordedSegments::RecordedSegments(const Trace& trace, SegmentSource* fallback, Bytes capacity)
    : fallback_(fallback), capacity_(capacity) {
  for (const Event& event : trace.events) {
    switch (event.kind) {
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentFree:
      case EventKind::kSegmentMap:
      case EventKind::kSegmentUnmap:
        events_.push_back(event);
        break;
      default:
        break;
    }
  }
}

// Steps over the next recorded event if it is this one. `address` 0: any.
bool RecordedSegments::Matches(EventKind kind, std::uint64_t address, Bytes size) {
  if (!difference_.empty()) return false;
  const Event* next = Next();
  if (next != nullptr && next->kind == kind && next->size == size &&
      (address == 0 || next->address == address)) {
    ++next_;
    return true;
  }
  difference_ = "segment event " + std::to_string(next_) + ": simulated " +
                Describe(static_cast<char>(kind), address, size) + ", recorded " +
                (next == nullptr ? "none"
                                 : Describe(static_cast<char>(next->kind), next->address, next->size));
  return false;
}

std::optional<std::uint64_t> RecordedSegments::Malloc(Bytes size, int stream) {
  const Bytes taken = RoundUp(size, kRoundLarge);  // the driver's pages
  if (taken > free_bytes()) return std::nullopt;
  used_ += taken;
  const Event* next = Next();
  if (Matches(EventKind::kSegmentAlloc, 0, size)) return next->address;
  return fallback_->Malloc(size, stream);
}

void RecordedSegments::Free(std::uint64_t address, Bytes size) {
  used_ -= RoundUp(size, kRoundLarge);
  (void)Matches(EventKind::kSegmentFree, address, size);
}

std::uint64_t RecordedSegments::Reserve(Bytes size, Bytes page, int stream) {
  // The trace does not say what was reserved. A new range is mapped from its
  // start, so it begins at the next mapping that lies in no range known so far.
  for (std::size_t i = next_; difference_.empty() && i < events_.size(); ++i) {
    const Event& event = events_[i];
    if (event.kind != EventKind::kSegmentMap || event.stream != stream) continue;
    // A small pool's request never takes more than its one page.
    if ((event.size == kSmallBuffer) != (page == kSmallBuffer)) continue;
    const bool known = std::any_of(reserved_.begin(), reserved_.end(), [&](const auto& range) {
      return event.address >= range.first && event.address < range.second;
    });
    if (known) continue;
    reserved_.emplace_back(event.address, event.address + static_cast<std::uint64_t>(size));
    return event.address;
  }
  return fallback_->Reserve(size, page, stream);
}

bool RecordedSegments::Map(std::uint64_t address, Bytes size) {
  if (size > free_bytes()) return false;
  used_ += size;
  (void)Matches(EventKind::kSegmentMap, address, size);
  return true;
}

void RecordedSegments::Unmap(std::uint64_t address, Bytes size) {
  used_ -= size;
  (void)Matches(EventKind::kSegmentUnmap, address, size);
}

void RecordedSegments::Release(std::uint64_t address, Bytes) {
  std::erase_if(reserved_, [&](const auto& range) { return range.first == address; });
}

std::string RecordedSegments::Difference(bool at_end) const {
  if (!difference_.empty() || !at_end || next_ == events_.size()) return difference_;
  return "segment event " + std::to_string(next_) + ": not simulated, recorded " +
         Describe(static_cast<char>(Next()->kind), Next()->address, Next()->size);
}

}  // namespace memmodel
