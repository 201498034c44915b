#include <doctest/doctest.h>

#include "memmodel/validate.h"

namespace memmodel {
namespace {

TEST_CASE("medians, 95th percentiles and equal runs by quantity and group") {
  std::vector<MeasuredRun> runs(2);
  runs[0].job.optimizer = {"sgd", {}};
  runs[1].job.optimizer = {"adamw", {}};
  std::vector<Comparison> comparisons;
  // Errors 0, 0.01, ..., 0.19 of run 0, and one of -0.5 of run 1.
  for (int i = 0; i < 20; ++i) comparisons.push_back({0, Quantity::kReserved, 100, 100 + i});
  comparisons.push_back({1, Quantity::kReserved, 100, 50});
  const std::vector<ErrorRow> table = MakeErrorTable(runs, comparisons);
  REQUIRE(table.size() == 3);  // all, adamw fp32, sgd fp32
  CHECK(table[0].group == "all");
  CHECK(table[0].runs == 21);
  CHECK(table[0].equal == 1);
  CHECK(table[0].median == doctest::Approx(0.10));  // the 11th of 21
  CHECK(table[0].p95 == doctest::Approx(0.19));     // the 20th of 21
  CHECK(table[0].largest == doctest::Approx(0.5));
  CHECK(table[1].group == "adamw fp32");
  CHECK(table[1].median == doctest::Approx(0.5));
  CHECK(table[2].runs == 20);
}

TEST_CASE("no comparison, no row") { CHECK(MakeErrorTable({}, {}).empty()); }

TEST_CASE("the device's error is also given where the reserved figure is equal") {
  std::vector<MeasuredRun> runs(2);
  const std::vector<ErrorRow> table = MakeErrorTable(runs, {{0, Quantity::kReserved, 1000, 1000},
                                                            {0, Quantity::kDevice, 2000, 2002},
                                                            {1, Quantity::kReserved, 1000, 1100},
                                                            {1, Quantity::kDevice, 2000, 2100}});
  int found = 0;
  for (const ErrorRow& row : table) {
    if (row.group != "reserved is equal") continue;
    ++found;
    CHECK(row.quantity == Quantity::kDevice);
    CHECK(row.runs == 1);
    CHECK(row.largest == doctest::Approx(0.001));
  }
  CHECK(found == 1);
}

}  // namespace
}  // namespace memmodel
