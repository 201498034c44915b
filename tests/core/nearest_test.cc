#include "src/core/nearest.h"

#include <doctest/doctest.h>

#include <vector>

using memmodel::DidYouMean;
using memmodel::NearestName;

TEST_CASE("a slip of the finger finds the name") {
  const std::vector<std::string> names = {"sgd", "adam", "adamw", "rmsprop", "adafactor"};
  CHECK(NearestName("adamW", names) == "adamw");
  CHECK(NearestName("admaw", names) == "adamw");
  CHECK(NearestName("rms_prop", names) == "rmsprop");
  CHECK(NearestName("adaf", names) == "adafactor");  // the start of a name
  CHECK_FALSE(NearestName("lion", names).has_value());
  CHECK_FALSE(NearestName("", names).has_value());
  CHECK(DidYouMean("sdg", {}) == "");
  CHECK(DidYouMean("admaw", names) == "; did you mean 'adamw'?");
}
