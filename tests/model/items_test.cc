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

TEST_CASE("occasions are items of their own, told apart") {
  const Result<Trace> trace =
      ParseTrace("d cudnn_handle\n# step b=1\nd first_kernel\nd first_kernel\n", "t");
  REQUIRE(trace.ok());
  const Result<TraceItems> items = ItemsForModel(*trace, true);
  REQUIRE(items.ok());
  REQUIRE(items->items.size() == 4);
  CHECK(items->items[0].kind == EventKind::kContext);
  CHECK(items->items[0].occasion == ContextOccasion::kCudnnHandle);
  CHECK(items->tokens[0] != items->tokens[2]);
  CHECK(items->tokens[2] == items->tokens[3]);
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

TEST_CASE("a reduction has two requests of its own at every batch, if of 0 bytes") {
  const auto items_of = [](const std::string& inside, int events) {
    const Result<Trace> trace =
        ParseTrace("! memmodel-trace 2\no aten::sum\n# step b=2\na 10 40 0 0 -1\n" + inside + "r " +
                       std::to_string(events) + " 0 -1 aten::sum k\nf 10 40 0\n",
                   "t");
    REQUIRE(trace.ok());
    const Result<TraceItems> items = ItemsForModel(*trace, true);
    REQUIRE(items.ok());
    std::string text;  // as a request stream; with a star where there is a key
    for (const Item& item : items->items) {
      if (item.kind == EventKind::kMarker) continue;
      text += static_cast<char>(item.kind) + std::to_string(item.size);
      if (item.key != nullptr) text += "*" + std::to_string(item.slot);
      text += " ";
    }
    return std::pair(text, items->tokens);
  };
  const auto with = items_of("a 20 640 0 0 -1\na 30 8 0 0 -1\nf 30 8 0 0 -1\nf 20 640 0 0 -1\n", 5);
  CHECK(with.first == "a40 a640*0 a8*1 f8 f640 f40 ");
  const auto without = items_of("", 1);
  CHECK(without.first == "a40 a0*0 a0*1 f0 f0 f40 ");
  CHECK(without.second == with.second);  // the same tokens: they are aligned
  // One request, and one that is not within the call: no reduction that is known.
  CHECK(items_of("a 20 640 0 0 -1\nf 20 640 0 0 -1\n", 3).first == "a40 a640 f640 f40 ");
  CHECK(items_of("", 0).first == "a40 a0*0 a0*1 f0 f0 f40 ");
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
