#include "src/simulate/free_blocks.h"

namespace memmodel {

BlockIndex FreeBlocks::Leftmost(BlockIndex block) const {
  while (At(block).left != kNoBlock) block = At(block).left;
  return block;
}

// The first block of the first occupied class at or above `size_class`.
BlockIndex FreeBlocks::FirstFrom(int size_class) const {
  if (size_class >= kClasses) return kNoBlock;
  auto word = static_cast<std::size_t>(size_class) >> 6;
  std::uint64_t bits = occupied_[word] & (~std::uint64_t{0} << (size_class & 63));
  if (bits == 0) {
    const std::uint64_t words = word == 63 ? 0 : summary_ & (~std::uint64_t{0} << (word + 1));
    if (words == 0) return kNoBlock;
    word = static_cast<std::size_t>(std::countr_zero(words));
    bits = occupied_[word];
  }
  return Leftmost(roots_[(word << 6) + static_cast<std::size_t>(std::countr_zero(bits))]);
}

BlockIndex FreeBlocks::LowerBound(Bytes size) const {
  const int size_class = ClassOf(size);
  BlockIndex best = kNoBlock;
  for (BlockIndex at = roots_[static_cast<std::size_t>(size_class)]; at != kNoBlock;) {
    const Block& block = At(at);
    if (block.size >= size) {
      best = at;
      at = block.left;
    } else {
      at = block.right;
    }
  }
  return best != kNoBlock ? best : FirstFrom(size_class + 1);
}

BlockIndex FreeBlocks::Next(BlockIndex block) const {
  if (At(block).right != kNoBlock) return Leftmost(At(block).right);
  BlockIndex at = block;
  for (BlockIndex up = At(at).parent; up != kNoBlock; at = up, up = At(up).parent) {
    if (At(up).left == at) return up;
  }
  return FirstFrom(ClassOf(At(block).size) + 1);
}

// Exchanges `block` with its parent, keeping the order.
void FreeBlocks::RotateUp(BlockIndex block, BlockIndex* root) {
  Block& self = At(block);
  const BlockIndex up = self.parent;
  Block& parent = At(up);
  const BlockIndex above = parent.parent;
  if (parent.left == block) {
    parent.left = self.right;
    if (self.right != kNoBlock) At(self.right).parent = up;
    self.right = up;
  } else {
    parent.right = self.left;
    if (self.left != kNoBlock) At(self.left).parent = up;
    self.left = up;
  }
  parent.parent = block;
  self.parent = above;
  if (above == kNoBlock) {
    *root = block;
  } else if (At(above).left == up) {
    At(above).left = block;
  } else {
    At(above).right = block;
  }
}

void FreeBlocks::InsertBelow(BlockIndex* root, BlockIndex index) {
  Block& block = At(index);
  BlockIndex at = *root;
  for (;;) {
    BlockIndex& child = Less(block, At(at)) ? At(at).left : At(at).right;
    if (child == kNoBlock) {
      child = index;
      block.parent = at;
      break;
    }
    at = child;
  }
  const std::uint32_t priority = Priority(index);
  while (block.parent != kNoBlock && Priority(block.parent) < priority) RotateUp(index, root);
}

// One tree of two, all of `left` standing before all of `right`.
BlockIndex FreeBlocks::Join(BlockIndex left, BlockIndex right) {
  BlockIndex top = kNoBlock;
  BlockIndex* slot = &top;
  BlockIndex above = kNoBlock;
  while (left != kNoBlock && right != kNoBlock) {
    const bool take_left = Priority(left) > Priority(right);
    const BlockIndex taken = take_left ? left : right;
    *slot = taken;
    At(taken).parent = above;
    above = taken;
    if (take_left) {
      slot = &At(taken).right;
      left = *slot;
    } else {
      slot = &At(taken).left;
      right = *slot;
    }
  }
  const BlockIndex rest = left != kNoBlock ? left : right;
  *slot = rest;
  if (rest != kNoBlock) At(rest).parent = above;
  return top;
}

// Takes out a block that is not alone in its class.
void FreeBlocks::EraseFromTree(BlockIndex index) {
  const Block& block = At(index);
  const BlockIndex joined = Join(block.left, block.right);
  if (joined != kNoBlock) At(joined).parent = block.parent;
  if (block.parent == kNoBlock) {
    roots_[static_cast<std::size_t>(ClassOf(block.size))] = joined;
  } else if (At(block.parent).left == index) {
    At(block.parent).left = joined;
  } else {
    At(block.parent).right = joined;
  }
}

}  // namespace memmodel
