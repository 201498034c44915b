#include "src/core/align.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

namespace memmodel {
namespace {

std::vector<std::uint64_t> Letters(const std::string& text) { return {text.begin(), text.end()}; }

// The textbook quadratic recurrence.
std::size_t LongestCommon(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      best[i + 1][j + 1] =
          a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
    }
  }
  return best[a.size()][b.size()];
}

// Checks that `runs` are equal stretches in increasing order; returns their length.
std::size_t CheckedLength(const std::vector<AlignedRun>& runs, const std::vector<std::uint64_t>& a,
                          const std::vector<std::uint64_t>& b) {
  std::size_t total = 0, a_end = 0, b_end = 0;
  for (const AlignedRun& run : runs) {
    REQUIRE(run.length > 0);
    REQUIRE(run.a_begin >= a_end);
    REQUIRE(run.b_begin >= b_end);
    a_end = run.a_begin + run.length;
    b_end = run.b_begin + run.length;
    REQUIRE(a_end <= a.size());
    REQUIRE(b_end <= b.size());
    for (std::size_t i = 0; i < run.length; ++i) REQUIRE(a[run.a_begin + i] == b[run.b_begin + i]);
    total += run.length;
  }
  return total;
}

TEST_CASE("Myers' own example has a common subsequence of 4") {
  const auto a = Letters("ABCABBA"), b = Letters("CBABAC");
  CHECK(CheckedLength(Align(a, b), a, b) == 4);
}

TEST_CASE("equal, empty and disjoint sequences") {
  const auto a = Letters("abc");
  CHECK(Align(a, a) == std::vector<AlignedRun>{{0, 0, 3}});
  CHECK(Align(a, {}).empty());
  CHECK(Align({}, {}).empty());
  CHECK(Align(a, Letters("xyz")).empty());
}

TEST_CASE("as long as the quadratic recurrence says, on random sequences") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const unsigned alphabet = 1 + random() % 6;
    std::vector<std::uint64_t> a(random() % 24), b(random() % 24);
    for (auto& x : a) x = random() % alphabet;
    for (auto& x : b) x = random() % alphabet;
    CAPTURE(round);
    CHECK(CheckedLength(Align(a, b), a, b) == LongestCommon(a, b));
  }
}

TEST_CASE("a cut search still gives a common subsequence") {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> a(200), b(200);
    for (auto& x : a) x = random() % 50;
    for (auto& x : b) x = random() % 50;
    const std::size_t cut = CheckedLength(Align(a, b, 3), a, b);
    CHECK(cut <= LongestCommon(a, b));
  }
}

}  // namespace
}  // namespace memmodel
