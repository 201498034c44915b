// The cached blocks of one pool and stream, ordered by (size, address) as
// torch's BlockComparatorSize orders them.
#ifndef MEMMODEL_SRC_SIMULATE_FREE_BLOCKS_H_
#define MEMMODEL_SRC_SIMULATE_FREE_BLOCKS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "memmodel/bytes.h"

namespace memmodel {

using BlockIndex = std::uint32_t;
inline constexpr BlockIndex kNoBlock = 0xffffffff;

// One cache line.
struct alignas(64) Block {
  std::uint64_t address = 0;
  Bytes size = 0;
  Bytes requested_size = 0;
  std::int64_t gc_count_base = 0;  // search count of its pool when it was cached
  BlockIndex prev = kNoBlock;      // neighbours in the segment
  BlockIndex next = kNoBlock;
  BlockIndex left = kNoBlock;      // links of FreeBlocks
  BlockIndex right = kNoBlock;
  BlockIndex parent = kNoBlock;
  std::uint32_t segment = kNoBlock;  // expandable segment, if it lies in one
  std::int16_t stream = 0;
  std::uint16_t pool = 0;
  bool allocated : 1 = false;
  bool mapped : 1 = true;
  bool stream_uses : 1 = false;  // recorded on another stream
  bool pending : 1 = false;      // freed, waiting for other streams
  bool alive : 1 = false;
};
static_assert(sizeof(Block) == 64);

// Blocks are cut into classes of nearly equal size, 64 to a power of two (exact
// multiples of 512 bytes up to 64 KiB), and each class is a search tree, kept
// shallow by fixed pseudo-random priorities (a treap). A bitmap finds the next
// class that holds anything. In real streams a class holds one or two blocks,
// so that every operation takes a few nanoseconds; it stays logarithmic when a
// million blocks have one size.
class FreeBlocks {
 public:
  explicit FreeBlocks(std::vector<Block>* blocks) : blocks_(blocks) { roots_.fill(kNoBlock); }

  void Insert(BlockIndex index) {
    Block& block = At(index);
    block.left = block.right = block.parent = kNoBlock;
    const auto size_class = static_cast<std::size_t>(ClassOf(block.size));
    BlockIndex& root = roots_[size_class];
    if (root != kNoBlock) return InsertBelow(&root, index);
    root = index;
    occupied_[size_class >> 6] |= std::uint64_t{1} << (size_class & 63);
    summary_ |= std::uint64_t{1} << (size_class >> 6);
  }
  void Erase(BlockIndex index) {
    const Block& block = At(index);
    if (block.parent != kNoBlock || block.left != kNoBlock || block.right != kNoBlock) {
      return EraseFromTree(index);
    }
    const auto size_class = static_cast<std::size_t>(ClassOf(block.size));
    roots_[size_class] = kNoBlock;
    std::uint64_t& word = occupied_[size_class >> 6];
    word &= ~(std::uint64_t{1} << (size_class & 63));
    if (word == 0) summary_ &= ~(std::uint64_t{1} << (size_class >> 6));
  }
  // The smallest block of at least `size`, the lowest address among equals.
  [[nodiscard]] BlockIndex LowerBound(Bytes size) const;
  // The block after `block` in the order.
  [[nodiscard]] BlockIndex Next(BlockIndex block) const;
  [[nodiscard]] BlockIndex First() const { return FirstFrom(0); }

 private:
  static constexpr int kClasses = 2560;  // up to 2^53 bytes

  static int ClassOf(Bytes size) {
    const auto units = static_cast<std::uint64_t>(size) >> 9;
    if (units < 128) return static_cast<int>(units);
    const int shift = std::bit_width(units) - 7;
    return (shift << 6) + static_cast<int>(units >> shift);
  }
  // A mix of the index's bits; any fixed mix keeps the trees shallow.
  static std::uint32_t Priority(BlockIndex block) {
    std::uint32_t x = block * 0x9e3779b1U;
    x ^= x >> 15;
    return x * 0x85ebca77U;
  }
  [[nodiscard]] bool Less(const Block& a, const Block& b) const {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
  Block& At(BlockIndex i) const { return (*blocks_)[i]; }
  [[nodiscard]] BlockIndex FirstFrom(int size_class) const;
  [[nodiscard]] BlockIndex Leftmost(BlockIndex block) const;
  void InsertBelow(BlockIndex* root, BlockIndex index);
  void EraseFromTree(BlockIndex index);
  void RotateUp(BlockIndex block, BlockIndex* root);
  BlockIndex Join(BlockIndex left, BlockIndex right);

  std::vector<Block>* blocks_;
  std::uint64_t summary_ = 0;
  std::array<std::uint64_t, kClasses / 64> occupied_{};
  std::array<BlockIndex, kClasses> roots_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_SIMULATE_FREE_BLOCKS_H_
