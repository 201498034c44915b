#include "src/fit/workspace.h"

#include <doctest/doctest.h>

namespace memmodel {
namespace {

using Points = std::vector<BatchBytes>;

TEST_CASE("nothing, a constant and a line are told apart") {
  CHECK(FitWorkspace({{1, 0}, {2, 0}, {4, 0}}).rule == "none");
  const WorkspaceModel constant = FitWorkspace({{1, 4096}, {2, 4096}, {4, 4096}});
  CHECK(constant.rule == "constant");
  CHECK(constant.At(3) == 4096);
  const WorkspaceModel line = FitWorkspace({{1, 1536}, {2, 2560}, {4, 4608}, {8, 8704}});
  CHECK(line.rule == "affine");
  CHECK(line.At(3) == 3584);  // 512 + 1024 b
  CHECK(line.held_out_error < 1);
}

// 32 KiB a sample missing below 4, as split-K workspaces fall away.
TEST_CASE("a falling hinge beats a constant and a line on left-out batches") {
  const Points points = {{1, 98304}, {2, 65536}, {3, 32768}, {4, 0}, {5, 0}, {6, 0}, {8, 0}};
  const WorkspaceModel model = FitWorkspace(points);
  CHECK(model.rule == "hinges");
  CHECK(model.At(2) == doctest::Approx(65536).epsilon(0.001));
  CHECK(model.At(7) == 0);
  CHECK(model.held_out_error < HeldOutError(points, "constant"));
  CHECK(model.held_out_error < HeldOutError(points, "affine"));
}

TEST_CASE("what was traced is kept") {
  const Points points = {{4, 512}, {8, 1024}};
  const WorkspaceModel model = FitWorkspace(points);
  REQUIRE(model.traced.size() == 2);
  CHECK(model.traced[1].bytes == 1024);
}

}  // namespace
}  // namespace memmodel
