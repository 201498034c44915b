// The blocks behind a trace's requests, found from their addresses.
#ifndef MEMMODEL_SRC_CLASSIFY_BLOCK_MAP_H_
#define MEMMODEL_SRC_CLASSIFY_BLOCK_MAP_H_

#include <cstdint>
#include <map>
#include <optional>

#include "memmodel/allocator_settings.h"
#include "memmodel/bytes.h"

namespace memmodel {

// Segments and their free ranges. Where a request was answered says which free
// range it was cut from, and so how large its block is: no policy is repeated
// here but rounding and the rule of what is split off.
class BlockMap {
 public:
  explicit BlockMap(const AllocatorSettings& settings) : settings_(settings) {}

  // Each returns false if the event contradicts those before it.
  bool AddSegment(std::uint64_t address, Bytes size);
  bool RemoveSegment(std::uint64_t address, Bytes size);
  bool Map(std::uint64_t address, Bytes size);
  bool Unmap(std::uint64_t address, Bytes size);
  bool Release(std::uint64_t address, Bytes block_size);

  // The size of the block that a request of `size` bytes got at `address`.
  std::optional<Bytes> Take(std::uint64_t address, Bytes size);

  [[nodiscard]] Bytes reserved() const { return reserved_; }

 private:
  struct Segment {
    Bytes size = 0;
    bool small = false;       // of the small pool
    bool expandable = false;  // then: one mapped range, joined with its neighbours
  };
  using Segments = std::map<std::uint64_t, Segment>;

  Segments::iterator SegmentAt(std::uint64_t address);
  void AddFree(Segments::iterator segment, std::uint64_t address, Bytes size);

  AllocatorSettings settings_;
  Segments segments_;
  std::map<std::uint64_t, Bytes> free_;
  Bytes reserved_ = 0;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CLASSIFY_BLOCK_MAP_H_
