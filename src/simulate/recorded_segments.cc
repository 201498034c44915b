#include "src/simulate/recorded_segments.h"

#include <cstdio>

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

RecordedSegments::RecordedSegments(const Trace& trace, SegmentSource* fallback)
    : fallback_(fallback) {
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
  const Event* next = Next();
  if (Matches(EventKind::kSegmentAlloc, 0, size)) return next->address;
  return fallback_->Malloc(size, stream);
}

void RecordedSegments::Free(std::uint64_t address, Bytes size) {
  (void)Matches(EventKind::kSegmentFree, address, size);
}

std::uint64_t RecordedSegments::Reserve(Bytes size, int stream) {
  // The first pages of a new range are mapped at once, at its start.
  const Event* next = Next();
  if (difference_.empty() && next != nullptr && next->kind == EventKind::kSegmentMap) {
    return next->address;
  }
  return fallback_->Reserve(size, stream);
}

bool RecordedSegments::Map(std::uint64_t address, Bytes size) {
  (void)Matches(EventKind::kSegmentMap, address, size);
  return true;
}

void RecordedSegments::Unmap(std::uint64_t address, Bytes size) {
  (void)Matches(EventKind::kSegmentUnmap, address, size);
}

void RecordedSegments::Release(std::uint64_t, Bytes) {}

std::string RecordedSegments::Difference(bool at_end) const {
  if (!difference_.empty() || !at_end || next_ == events_.size()) return difference_;
  return "segment event " + std::to_string(next_) + ": not simulated, recorded " +
         Describe(static_cast<char>(Next()->kind), Next()->address, Next()->size);
}

}  // namespace memmodel
