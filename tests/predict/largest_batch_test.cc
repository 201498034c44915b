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
