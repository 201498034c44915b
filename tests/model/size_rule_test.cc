#include "src/model/size_rule.h"

#include <doctest/doctest.h>

namespace memmodel {
namespace {

TEST_CASE("constants, lines and parabolas with integer coefficients are exact") {
  CHECK(FitSizeRule({{1, 400}, {7, 400}}).kind == SizeRule::Kind::kConstant);
  const SizeRule line = FitSizeRule({{2, 1200}, {8, 4800}, {16, 9600}});
  CHECK(line.kind == SizeRule::Kind::kAffine);
  CHECK(line.At(5) == 3000);
  // b x b logits of 4 bytes and 100 b more, as a contrastive loss has.
  const SizeRule parabola = FitSizeRule({{1, 104}, {2, 216}, {4, 464}, {16, 2624}});
  CHECK(parabola.kind == SizeRule::Kind::kQuadratic);
  CHECK(parabola.At(10) == 1400);
}

TEST_CASE("three points are no proof of a parabola") {
  CHECK(FitSizeRule({{1, 104}, {2, 216}, {4, 464}}).kind == SizeRule::Kind::kTable);
}

TEST_CASE("a table is kept at its points and a guess with a range elsewhere") {
  const SizeRule rule = FitSizeRule({{4, 1000}, {8, 3000}, {16, 3000}});
  REQUIRE(rule.kind == SizeRule::Kind::kTable);
  CHECK_FALSE(rule.exact());
  CHECK(rule.At(4) == 1000);
  CHECK(rule.At(8) == 3000);
  CHECK(rule.RangeAt(8).low == 3000);
  CHECK(rule.RangeAt(8).high == 3000);
  CHECK(rule.At(6) == 2000);
  CHECK(rule.RangeAt(6).low == 1000);
  CHECK(rule.RangeAt(6).high == 3000);
  CHECK(rule.At(32) == 3000);
  CHECK(rule.RangeAt(32).high == 6000);
  CHECK(rule.RangeAt(2).low == 0);
}

TEST_CASE("a table on a line follows it beyond its points, but is not exact") {
  const SizeRule rule = TableOf({{4, 4000}, {8, 8000}, {16, 16000}});
  CHECK_FALSE(rule.exact());
  CHECK(rule.At(2) == 2000);
  CHECK(rule.At(20) == 20000);
  CHECK(rule.RangeAt(6).low == 4000);
  CHECK(rule.RangeAt(6).high == 8000);
}

TEST_CASE("answers become pieces, and beyond them the traced sizes are a table") {
  // Flat, a line, one alone, and flat again.
  const std::vector<Bytes> answers = {512, 512, 512, 1000, 2000, 3000, 77, 5, 5};
  const SizeRule rule = PlannedOf({{1, 512}, {8, 5}, {16, 13}}, answers);
  CHECK(rule.pieces.size() == 4);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto batch = static_cast<std::int64_t>(i) + 1;
    CAPTURE(batch);
    CHECK(rule.At(batch) == answers[i]);
    CHECK(rule.ExactAt(batch));
    CHECK(rule.RangeAt(batch).low == rule.RangeAt(batch).high);
  }
  CHECK_FALSE(rule.ExactAt(10));
  CHECK(rule.At(12) == 9);
  CHECK(rule.RangeAt(12).low == 5);
  CHECK(rule.RangeAt(12).high == 13);
}

TEST_CASE("sizes beyond any device saturate and do not overflow") {
  SizeRule rule{.kind = SizeRule::Kind::kQuadratic,
                .c0 = SizeRule::kLargest,
                .c1 = SizeRule::kLargest,
                .c2 = SizeRule::kLargest};
  CHECK(rule.At(MemoryModel::kLargestBatch) == SizeRule::kLargest);
  rule.c2 = -SizeRule::kLargest;
  CHECK(rule.At(MemoryModel::kLargestBatch) == 0);
}

}  // namespace
}  // namespace memmodel
