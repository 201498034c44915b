#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "src/step/pt2_module_tree.h"

namespace memmodel::step {
namespace {

std::vector<std::string> Order(const std::vector<std::string>& modules,
                               const std::vector<TreeTensor>& tensors) {
  const auto steps = ApplyOrder(modules, tensors);
  REQUIRE(steps.ok());
  std::vector<std::string> names;
  for (const ApplyStep& step : *steps) {
    names.push_back(step.tensor >= 0 ? tensors[static_cast<std::size_t>(step.tensor)].name
                                     : "end of " + step.module);
  }
  return names;
}

// torch.nn.Module._apply on a module with a parameter and a buffer of its own and two
// children, of which the second was registered first.
TEST_CASE("children first, then parameters, then buffers") {
  CHECK(Order({"", "late", "early"}, {{"scale", true},
                                      {"early.weight", true},
                                      {"late.weight", true},
                                      {"count", false},
                                      {"early.mean", false}}) ==
        std::vector<std::string>{"late.weight", "end of late", "early.weight", "early.mean",
                                 "end of early", "scale", "count", "end of "});
}

TEST_CASE("modules that nobody lists stand where their tensors do") {
  CHECK(Order({}, {{"b.0.weight", true}, {"a.weight", true}, {"b.1.weight", true}}) ==
        std::vector<std::string>{"b.0.weight", "end of b.0", "b.1.weight", "end of b.1", "end of b",
                                 "a.weight", "end of a", "end of "});
}

TEST_CASE("absurd nesting is refused") {
  const std::string deep(100000, '.');
  CHECK_FALSE(ApplyOrder({deep}, {}).ok());
  CHECK_FALSE(ApplyOrder({}, {{deep, true}}).ok());
}

}  // namespace
}  // namespace memmodel::step
