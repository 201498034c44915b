#include "src/model/items.h"

#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

TEST_CASE("parts, batch and roles are found") {
  const Trace trace = test::Sample(4);
  const Result<TraceItems> items = ItemsForModel(trace, true);
  REQUIRE(items.ok());
  CHECK(items->batch == 4);
  CHECK(items->part_begin.size() == 4);  // load, two steps, the end
  CHECK(items->items[1].role == TensorRole::kWeight);
  CHECK(items->tokens.size() == items->items.size());
}

TEST_CASE("an output and a workspace of one operator have different tokens") {
  const Trace trace = test::Sample(4);
  const Result<TraceItems> items = ItemsForModel(trace, true);
  REQUIRE(items.ok());
  std::size_t output = 0, workspace = 0;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (items->items[i].size == 2048 * 4 && output == 0) output = i;
    if (items->items[i].size == 65536 && workspace == 0) workspace = i;
  }
  REQUIRE(workspace > output);
  CHECK(items->items[output].op == items->items[workspace].op);
  CHECK(items->tokens[output] != items->tokens[workspace]);
}

Status StatusOf(const std::string& text) {
  const Result<Trace> trace = ParseTrace(text, "test");
  REQUIRE(trace.ok());
  return ItemsForModel(*trace, true).status();
}

TEST_CASE("traces that make no model are refused with a reason") {
  CHECK(StatusOf("# load\na 1 512 0\n").message().find("no") != std::string::npos);
  CHECK(StatusOf("# step b=1\n# step b=2\n").message().find("batch 1 and 2") != std::string::npos);
  CHECK(StatusOf("# step b=1\nO 0 512 0\n").message().find("out-of-memory") != std::string::npos);
  CHECK(StatusOf("# step b=1\nf 1 512 0\n").message().find("not allocated") != std::string::npos);
  CHECK(StatusOf("# step b=x\n").message().find("names no batch") != std::string::npos);
  CHECK(
      StatusOf("# step b=1\na 1 4611686018427387904 0\n").message().find("more than any device") !=
      std::string::npos);
}

TEST_CASE("a release that is completed later stays two events") {
  const Result<Trace> trace = ParseTrace(
      "# step b=1\na 1 512 0\nf 1 512 0\na 2 512 0\nc 1 512 0\nf 2 512 0\nc 2 512 0\n", "t");
  REQUIRE(trace.ok());
  const Result<TraceItems> items = ItemsForModel(*trace, true);
  REQUIRE(items.ok());
  REQUIRE(items->items.size() == 6);
  CHECK_FALSE(items->items[2].completes);
  CHECK(items->items[4].kind == EventKind::kFreeCompleted);
  CHECK(items->items[5].completes);
}

}  // namespace
}  // namespace memmodel
