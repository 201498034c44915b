#include <doctest/doctest.h>

#include "memmodel/calibrate.h"

using namespace memmodel;
using Batches = std::vector<std::int64_t>;

TEST_CASE("lists and ranges of batches") {
  CHECK(*ParseBatches("8") == Batches{8});
  CHECK(*ParseBatches("4,1,2-4") == Batches{1, 2, 3, 4});
  CHECK(ParseBatches("1-64")->size() == 64);
}

TEST_CASE("what is no list is refused with the rule") {
  for (const char* text :
       {"", "0", "-1", "4-2", "1,,2", "1,", "a", "1-", "1x", "1-65537", "1-99999999999999999999"}) {
    CAPTURE(text);
    const Result<Batches> batches = ParseBatches(text);
    REQUIRE_FALSE(batches.ok());
    CHECK(batches.status().code() == StatusCode::kInvalidArgument);
    CHECK(batches.status().message().find("1-64") != std::string::npos);
  }
}
