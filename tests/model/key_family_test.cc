#include "src/model/key_family.h"

#include <doctest/doctest.h>

namespace memmodel {
namespace {

std::optional<KeyFamily> FamilyOf(const std::vector<std::pair<std::int64_t, std::string>>& keys) {
  std::vector<BatchKey> samples;
  for (const auto& [batch, key] : keys) samples.push_back({batch, &key});
  return KeyFamily::Of(samples);
}

const std::string kRest = " 3 224 224 64 7 7 3 3 2 2 1 1 1 0";

TEST_CASE("the batch, or a multiple of it, is put into the key") {
  const auto plain = FamilyOf({{1, "fwd f32 1" + kRest}, {8, "fwd f32 8" + kRest}});
  REQUIRE(plain);
  CHECK(plain->At(5) == "fwd f32 5" + kRest);
  CHECK_FALSE(plain->constant());
  const auto frames = FamilyOf({{2, "wgrad bf16 32" + kRest}, {4, "wgrad bf16 64" + kRest}});
  REQUIRE(frames);
  CHECK(frames->At(3) == "wgrad bf16 48" + kRest);
}

TEST_CASE("a convolution that the batch does not enter has one key") {
  const auto family = FamilyOf({{1, "fwd f16 7" + kRest}, {8, "fwd f16 7" + kRest}});
  REQUIRE(family);
  CHECK(family->At(100) == "fwd f16 7" + kRest);
  CHECK(family->constant());
}

TEST_CASE("a batch folded into the height is found too, in three dimensions as in two") {
  const auto key = [](std::int64_t height) {
    return "dgrad f32 1 8 4 " + std::to_string(height) + " 16 8 3 3 3 1 1 1 1 1 1 1 1 1 1 0";
  };
  const auto family = FamilyOf({{1, key(16)}, {4, key(64)}, {9, key(144)}});
  REQUIRE(family);
  CHECK(family->At(2) == key(32));
}

TEST_CASE("shapes and strides of an operator's arguments follow the batch") {
  const auto key = [](const std::string& b, const std::string& offset) {
    return "aten::sum.dim_IntList Float(" + b + ",197,768;151296,768,1;" + offset +
           ") [0,1] true none";
  };
  const auto family =
      FamilyOf({{2, key("2", "100")}, {8, key("8", "400")}, {64, key("64", "3200")}});
  REQUIRE(family);
  CHECK(family->At(5) == key("5", "250"));
}

TEST_CASE("what is no line has no family") {
  CHECK_FALSE(
      FamilyOf({{1, "fwd f32 1" + kRest}, {2, "fwd f32 2" + kRest}, {4, "fwd f32 5" + kRest}}));
  CHECK_FALSE(FamilyOf({{1, "fwd f32 1" + kRest}, {3, "fwd f32 2" + kRest}}));  // half a sample
  CHECK_FALSE(FamilyOf({{1, "fwd f32 1" + kRest}, {2, "dgrad f32 2" + kRest}}));
  CHECK_FALSE(FamilyOf({{1, "fwd f32 1" + kRest}}));
  for (const char* none : {"", "fwd", "99999999999999999999"}) {
    CHECK_FALSE(FamilyOf({{1, none}, {2, none}}));
  }
  const std::string key = "fwd f32 1" + kRest;
  CHECK_FALSE(KeyFamily::Of({{1, &key}, {2, nullptr}}));
}

TEST_CASE("a batch at which nothing would be left has no key") {
  const auto family = FamilyOf({{2, "fwd f32 1" + kRest}, {4, "fwd f32 3" + kRest}});
  REQUIRE(family);
  CHECK_FALSE(family->At(1));
  CHECK(family->At(2));
  CHECK_FALSE(family->At(std::int64_t{1} << 41));
}

}  // namespace
}  // namespace memmodel
