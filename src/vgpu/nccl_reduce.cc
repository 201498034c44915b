#include "src/vgpu/nccl_reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/vgpu/nccl_types.h"

namespace memmodel::vgpu {
namespace {

template <typename T>
T Combine(T a, T b, int operation) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, std::uint64_t>;
  switch (operation) {
    case kNcclProduct:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case kNcclMax:
      return std::max(a, b);
    case kNcclMin:
      return std::min(a, b);
    default:  // sum, average; integers wrap around
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <typename T>
T Finish(T value, std::size_t ranks, int operation) {
  return operation == kNcclAverage ? static_cast<T>(value / static_cast<T>(ranks)) : value;
}

template <typename T>
std::string ReduceAs(const std::vector<std::string>& ranks, int operation) {
  std::string result = ranks.front();
  for (std::size_t at = 0; at + sizeof(T) <= result.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, ranks.front().data() + at, sizeof value);
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      T other;
      std::memcpy(&other, ranks[rank].data() + at, sizeof other);
      value = Combine(value, other, operation);
    }
    value = Finish(value, ranks.size(), operation);
    std::memcpy(result.data() + at, &value, sizeof value);
  }
  return result;
}

// bfloat16 is the upper half of a float; rounded to nearest even on the way back.
std::string ReduceBfloat16(const std::vector<std::string>& ranks, int operation) {
  const auto load = [](const std::string& text, std::size_t at) {
    std::uint16_t half;
    std::memcpy(&half, text.data() + at, sizeof half);
    return std::bit_cast<float>(std::uint32_t{half} << 16);
  };
  std::string result = ranks.front();
  for (std::size_t at = 0; at + 2 <= result.size(); at += 2) {
    float value = load(ranks.front(), at);
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      value = Combine(value, load(ranks[rank], at), operation);
    }
    const auto bits = std::bit_cast<std::uint32_t>(Finish(value, ranks.size(), operation));
    const auto half = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    std::memcpy(result.data() + at, &half, sizeof half);
  }
  return result;
}

}  // namespace

std::optional<std::string> Reduce(const std::vector<std::string>& ranks, int type, int operation) {
  if (ranks.empty() || operation < kNcclSum || operation > kNcclAverage) return std::nullopt;
  for (const std::string& rank : ranks) {
    if (rank.size() != ranks.front().size()) return std::nullopt;
  }
  switch (type) {
    case kNcclInt8:
      return ReduceAs<std::int8_t>(ranks, operation);
    case kNcclUint8:
      return ReduceAs<std::uint8_t>(ranks, operation);
    case kNcclInt32:
      return ReduceAs<std::int32_t>(ranks, operation);
    case kNcclUint32:
      return ReduceAs<std::uint32_t>(ranks, operation);
    case kNcclInt64:
      return ReduceAs<std::int64_t>(ranks, operation);
    case kNcclUint64:
      return ReduceAs<std::uint64_t>(ranks, operation);
    case kNcclFloat32:
      return ReduceAs<float>(ranks, operation);
    case kNcclFloat64:
      return ReduceAs<double>(ranks, operation);
    case kNcclBfloat16:
      return ReduceBfloat16(ranks, operation);
    default:  // float16 and the 8-bit types: no known value of them decides anything
      return std::nullopt;
  }
}

}  // namespace memmodel::vgpu
