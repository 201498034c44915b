#include "src/predict/largest_batch.h"

#include <doctest/doctest.h>

#include <set>

using namespace memmodel;

namespace {

struct Counted {
  std::int64_t answer = -1;
  std::set<std::int64_t> tried;
  int rounds = 0;
};

// Looks for the largest b with size(b) <= budget, where size is told as measure.
template <typename Size>
Counted Look(const Size& size, double budget, SearchOptions options, bool tells = true) {
  Counted counted;
  options.budget = budget;
  const Result<std::int64_t> answer =
      LargestBatch(options, [&](const std::vector<std::int64_t>& batches) {
        ++counted.rounds;
        std::vector<Trial> trials;
        for (const std::int64_t b : batches) {
          CHECK(b >= 1);
          CHECK(b <= options.largest);
          CHECK_FALSE(counted.tried.contains(b));
          counted.tried.insert(b);
          const bool holds = size(b) <= budget;
          trials.push_back({holds, tells ? std::optional<double>(size(b)) : std::nullopt});
        }
        return Result<std::vector<Trial>>(trials);
      });
  REQUIRE(answer.ok());
  counted.answer = *answer;
  return counted;
}

SearchOptions Measured(double at8, double at32) {
  SearchOptions options;
  options.measures = {{8, at8}, {32, at32}};
  return options;
}

}  // namespace

TEST_CASE("a straight line needs one round") {
  const auto size = [](std::int64_t b) { return 400.0 + 200.0 * static_cast<double>(b); };
  const Counted counted = Look(size, 19200, Measured(size(8), size(32)));
  CHECK(counted.answer == 94);  // 400 + 94 * 200 = 19200
  CHECK(counted.rounds == 1);
  CHECK(counted.tried == std::set<std::int64_t>{94, 95});
}

TEST_CASE("the answer and the next batch have both been tried") {
  // Steps, bends and plateaus, as workspaces make them.
  const auto bent = [](std::int64_t b) {
    return 500.0 + 37.0 * static_cast<double>(b) + (b % 7 == 0 ? 90 : 0) + (b > 60 ? 800 : 0);
  };
  for (double budget = 0; budget < 12000; budget += 333) {
    for (const int side_by_side : {1, 2, 3}) {
      SearchOptions options = Measured(bent(8), bent(32));
      options.side_by_side = side_by_side;
      const Counted counted = Look(bent, budget, options);
      CAPTURE(budget);
      if (counted.answer > 0) {
        CHECK(counted.tried.contains(counted.answer));
        CHECK(bent(counted.answer) <= budget);
      }
      CHECK(counted.tried.contains(counted.answer + 1));
      CHECK(bent(counted.answer + 1) > budget);
      CHECK(counted.tried.size() < 25);
    }
  }
}

TEST_CASE("nothing fits, everything fits") {
  const auto size = [](std::int64_t b) { return 1000.0 + static_cast<double>(b); };
  CHECK(Look(size, 900, Measured(size(8), size(32))).answer == 0);
  SearchOptions options = Measured(size(8), size(32));
  options.largest = 5000;
  CHECK(Look(size, 1e9, options).answer == 5000);
}

TEST_CASE("a search that is told nothing but yes and no ends too") {
  const auto size = [](std::int64_t b) { return static_cast<double>(b); };
  SearchOptions options;
  const Counted counted = Look(size, 12345, options, /*tells=*/false);
  CHECK(counted.answer == 12345);
  CHECK(counted.tried.size() < 60);
}

TEST_CASE("a climb makes the trials of a person who tries, in the same order") {
  // VGG-16 in fp32 under a cap of 24 GiB on an NVIDIA H200, as measured by trial.
  const std::vector<std::pair<std::int64_t, bool>> measured = {
      {150, true},  {159, true}, {177, true}, {213, true},  {285, true}, {429, false}, {357, false},
      {321, false}, {303, true}, {312, true}, {316, false}, {314, true}, {315, false}};
  std::vector<std::pair<std::int64_t, bool>> tried;
  ClimbOptions options;
  options.start = 150;
  options.side_by_side = 1;
  const Result<std::int64_t> answer =
      ClimbToLargest(options, [&](const std::vector<std::int64_t>& batches) {
        REQUIRE(batches.size() == 1);
        REQUIRE(tried.size() < measured.size());
        tried.emplace_back(batches[0], measured[tried.size()].second);
        return Result<std::vector<Trial>>({Trial{tried.back().second, std::nullopt}});
      });
  REQUIRE(answer.ok());
  CHECK(tried == measured);
  CHECK(*answer == 314);
}

TEST_CASE("a climb with trials side by side finds the same, and stays where it may") {
  const auto climb = [](std::int64_t start, std::int64_t known, std::int64_t answer, int n) {
    ClimbOptions options;
    options.start = start;
    options.known_true = known;
    options.largest = 1000;
    options.side_by_side = n;
    std::set<std::int64_t> tried;
    const Result<std::int64_t> found =
        ClimbToLargest(options, [&](const std::vector<std::int64_t>& batches) {
          CHECK(batches.size() <= static_cast<std::size_t>(n));
          std::vector<Trial> trials;
          for (const std::int64_t b : batches) {
            CHECK(b > known);
            CHECK(b <= 1000);
            CHECK(tried.insert(b).second);
            trials.push_back({b <= answer, std::nullopt});
          }
          return Result<std::vector<Trial>>(trials);
        });
    REQUIRE(found.ok());
    return *found;
  };
  for (const std::int64_t answer : {0, 1, 2, 63, 64, 500, 999, 1000}) {
    for (const std::int64_t start : {1, 60, 640, 5000}) {
      CAPTURE(answer);
      CAPTURE(start);
      CHECK(climb(start, 0, answer, 1) == answer);
      CHECK(climb(start, 0, answer, 2) == answer);
      CHECK(climb(start, answer / 2, answer, 2) == answer);
    }
  }
}

TEST_CASE("where a line meets a budget") {
  CHECK(LineMeets({8, 2000}, {32, 6800}, 19200) == 94);  // 400 + 200 b
  CHECK(LineMeets({8, 2000}, {32, 6800}, 100) == 1);
  CHECK(LineMeets({8, 2000}, {32, 2000}, 19200) == 32);
  CHECK(LineMeets({8, 2000}, {8, 2000}, 19200) == 8);
}
