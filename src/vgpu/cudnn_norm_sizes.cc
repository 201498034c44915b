#include "src/vgpu/cudnn_norm_sizes.h"

namespace memmodel::vgpu {
namespace {

constexpr std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Channels of a tile: whole vectors of four are read where they are aligned.
std::int64_t TileChannels(std::int64_t channels) {
  if (channels < 4) return 4;
  return channels % 4 == 0 ? 64 : 16;
}

// `rows` of a tile of 16 or 64 channels; the narrow tile takes four times as many.
std::int64_t Bytes(const BatchNormShape& shape, std::int64_t rows, std::int64_t head,
                   std::int64_t counter) {
  const std::int64_t width = TileChannels(shape.channels);
  const std::int64_t tiles = CeilDivide(shape.channels, width);
  const std::int64_t blocks = tiles * CeilDivide(shape.rows, width == 4 ? 4 * rows : rows);
  return head + 4 * tiles + blocks * (2 * 4 * width + counter);
}

}  // namespace

std::int64_t BatchNormForwardBytes(const BatchNormShape& shape) {
  return Bytes(shape, shape.element_bytes == 4 ? 64 : 160, 1072, 4);
}

std::int64_t BatchNormBackwardBytes(const BatchNormShape& shape) {
  return Bytes(shape, 96, 1056, 0);
}

bool IsChannelsLast(const int* sizes, const int* strides, int dimensions) {
  std::int64_t expected = 1;
  const auto packed = [&](int i) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
    return true;
  };
  if (!packed(1)) return false;
  for (int i = dimensions - 1; i >= 2; --i) {
    if (!packed(i)) return false;
  }
  return packed(0);
}

std::int64_t CtcWorkspaceV8Bytes(const CtcShape& shape) {
  const std::int64_t states = 2 * shape.longest_label + 1;
  return shape.batch *
         (4 * shape.steps * shape.classes + 2 * 4 * shape.steps * states + 4 * states + 8);
}

std::int64_t CtcWorkspaceBytes(const CtcShape& shape) {
  return CtcWorkspaceV8Bytes(shape) + shape.batch * (4 * shape.longest_label + 8);
}

}  // namespace memmodel::vgpu
