#include "src/vgpu/nccl_reduce.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "src/vgpu/nccl_types.h"

namespace memmodel::vgpu {
namespace {

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_CASE("integers are summed element by element") {
  const std::vector<std::string> ranks = {Bytes<std::int64_t>({1, -2}),
                                          Bytes<std::int64_t>({3, 10})};
  CHECK(Reduce(ranks, kNcclInt64, kNcclSum) == Bytes<std::int64_t>({4, 8}));
  CHECK(Reduce(ranks, kNcclInt64, kNcclMax) == Bytes<std::int64_t>({3, 10}));
  CHECK(Reduce(ranks, kNcclInt64, kNcclMin) == Bytes<std::int64_t>({1, -2}));
  CHECK(Reduce(ranks, kNcclInt64, kNcclProduct) == Bytes<std::int64_t>({3, -20}));
}

TEST_CASE("an average divides by the number of ranks") {
  CHECK(Reduce({Bytes<float>({1}), Bytes<float>({2}), Bytes<float>({6})}, kNcclFloat32,
               kNcclAverage) == Bytes<float>({3}));
}

TEST_CASE("bfloat16 is the upper half of a float: 1.0 + 2.0 = 3.0") {
  CHECK(Reduce({Bytes<std::uint16_t>({0x3f80}), Bytes<std::uint16_t>({0x4000})}, kNcclBfloat16,
               kNcclSum) == Bytes<std::uint16_t>({0x4040}));
}

TEST_CASE("what is not followed is not known") {
  const std::vector<std::string> ranks = {std::string(8, '\0'), std::string(8, '\0')};
  CHECK_FALSE(Reduce(ranks, kNcclFloat16, kNcclSum));
  CHECK_FALSE(Reduce(ranks, kNcclInt64, kNcclAverage + 1));
  CHECK_FALSE(Reduce({std::string(8, '\0'), std::string(4, '\0')}, kNcclInt32, kNcclSum));
  CHECK_FALSE(Reduce({}, kNcclInt32, kNcclSum));
}

}  // namespace
}  // namespace memmodel::vgpu
