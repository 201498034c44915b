// Alignment of two sequences: which elements of `a` stand for which of `b`.
#ifndef MEMMODEL_SRC_CORE_ALIGN_H_
#define MEMMODEL_SRC_CORE_ALIGN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memmodel {

// a[a_begin + i] == b[b_begin + i] for i < length.
struct AlignedRun {
  std::size_t a_begin = 0;
  std::size_t b_begin = 0;
  std::size_t length = 0;
  friend bool operator==(const AlignedRun&, const AlignedRun&) = default;
};

// The runs of a longest common subsequence, in order, none of them empty and no
// two of them touching in both sequences. Sequences that differ in more than
// `effort` elements between two runs get a common subsequence that need not be
// the longest: the search is cut so that hopeless pairs take seconds, not hours.
std::vector<AlignedRun> Align(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                              std::size_t effort = 4096);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_ALIGN_H_
