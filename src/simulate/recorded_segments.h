// A driver that answers as the recorded one did.
#ifndef MEMMODEL_SRC_SIMULATE_RECORDED_SEGMENTS_H_
#define MEMMODEL_SRC_SIMULATE_RECORDED_SEGMENTS_H_

#include <string>
#include <vector>

#include "memmodel/allocator.h"
#include "memmodel/trace.h"

namespace memmodel {

// Gives out the addresses of the trace's segment events, in order, as long as
// the allocator does what was recorded; from the first difference on, the
// addresses of `fallback`. It fails when more than `capacity` would be taken.
class RecordedSegments : public SegmentSource {
 public:
  RecordedSegments(const Trace& trace, SegmentSource* fallback, Bytes capacity);

  std::optional<std::uint64_t> Malloc(Bytes size, int stream) override;
  void Free(std::uint64_t address, Bytes size) override;
  std::uint64_t Reserve(Bytes size, Bytes page, int stream) override;
  bool Map(std::uint64_t address, Bytes size) override;
  void Unmap(std::uint64_t address, Bytes size) override;
  void Release(std::uint64_t address, Bytes size) override;
  [[nodiscard]] Bytes free_bytes() const override { return capacity_ - used_; }

  // One line, or empty: what the allocator first did otherwise. Call once at the
  // end with `at_end`, when recorded events that did not happen count too.
  [[nodiscard]] std::string Difference(bool at_end) const;

 private:
  const Event* Next() const { return next_ < events_.size() ? &events_[next_] : nullptr; }
  bool Matches(EventKind kind, std::uint64_t address, Bytes size);

  std::vector<Event> events_;
  std::size_t next_ = 0;
  std::string difference_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reserved_;  // begin, end
  SegmentSource* fallback_;
  Bytes capacity_;
  Bytes used_ = 0;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_SIMULATE_RECORDED_SEGMENTS_H_
