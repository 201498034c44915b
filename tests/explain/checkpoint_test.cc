#include "src/explain/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace memmodel {
namespace {

TEST_CASE("a block is the path up to the first number") {
  CHECK(BlockOf("layer1.0.conv2") == "layer1.0");
  CHECK(BlockOf("m.transformer.h.11.mlp") == "m.transformer.h.11");
  CHECK(BlockOf("encoder.layers.encoder_layer_3.mlp.0") == "encoder.layers.encoder_layer_3");
  CHECK(BlockOf("conv1") == "");
  CHECK(BlockOf("layer1") == "");
  CHECK(BlockOf("") == "");
}

// Two blocks, each with an inner tensor of 8192 bytes and a result of 1024; in
// backward each block releases its inner tensor and then its result.
constexpr char kTwoBlocks[] = R"(! memmodel-trace 1
o aten::f
m Block h.0
m Block h.1
# load
# step b=1
a 1 8192 0 0 0
a 2 1024 0 0 0
a 3 8192 0 0 1
a 4 1024 0 0 1
# forward done
a 5 512 0 0 1
f 3 8192 0 0 1
c 3 8192 0 0 1
f 4 1024 0 0 1
c 4 1024 0 0 1
a 6 512 0 0 0
f 5 512 0 0 0
c 5 512 0 0 0
f 1 8192 0 0 0
c 1 8192 0 0 0
f 2 1024 0 0 0
c 2 1024 0 0 0
# backward done
f 6 512 0 -1 -1
c 6 512 0 -1 -1
# step done
)";

Bytes Peak(const Trace& trace) {
  Bytes sum = 0, peak = 0;
  for (const Event& e : trace.events) {
    if (e.kind == EventKind::kAlloc) sum += e.size;
    if (e.kind == EventKind::kFree) sum -= e.size;
    peak = std::max(peak, sum);
  }
  CHECK(sum == 0);  // every request is released once
  return peak;
}

TEST_CASE("inner tensors are released after forward and made again in backward") {
  const Result<Trace> trace = ParseTrace(kTwoBlocks, "t");
  REQUIRE(trace.ok());
  CHECK(BlocksOf(*trace) == std::vector<std::string>{"h.0", "h.1"});
  CHECK(Peak(*trace) == 2 * (8192 + 1024) + 512);
  const Trace checkpointed = WithCheckpoints(*trace);
  // By hand: both results are kept (2048); h.1 is made again in backward, inner and
  // a second result, before its first request.
  CHECK(Peak(checkpointed) == 2048 + 8192 + 1024);
  const auto requests = [](const Trace& t) {
    return std::count_if(t.events.begin(), t.events.end(),
                         [](const Event& e) { return e.kind == EventKind::kAlloc; });
  };
  CHECK(requests(*trace) == 6);
  CHECK(requests(checkpointed) == 10);  // the four of forward twice
}

// A path that comes back after another block, as when two containers share it: two
// blocks of one name. Forward keeps 8192 and 1024 in each of the three stretches.
TEST_CASE("a path that comes back is another block") {
  std::string text = "! memmodel-trace 1\no f\nm Block h.0\nm Block h.1\n# step b=1\n";
  const auto line = [&](char kind, int address, int size, int module) {
    const std::string end = std::to_string(address) + " " + std::to_string(size) + " 0 0 " +
                            std::to_string(module) + "\n";
    text += std::string(1, kind) + " " + end;
    if (kind == 'f') text += "c " + end;
  };
  const int modules[] = {0, 1, 0};
  for (int i = 0; i < 3; ++i) {
    line('a', 10 + i, 8192, modules[i]);
    line('a', 20 + i, 1024, modules[i]);
  }
  text += "# forward done\n";
  for (int i = 2; i >= 0; --i) {
    line('a', 30, 512, modules[i]);
    line('f', 10 + i, 8192, modules[i]);
    line('f', 20 + i, 1024, modules[i]);
    line('f', 30, 512, modules[i]);
  }
  text += "# backward done\n";
  const Result<Trace> trace = ParseTrace(text, "t");
  REQUIRE(trace.ok());
  CHECK(Peak(*trace) == 3 * (8192 + 1024) + 512);
  // By hand: three results are kept (3072); the last block is made again, inner and a
  // second result.
  CHECK(Peak(WithCheckpoints(*trace)) == 3 * 1024 + 8192 + 1024);
}

TEST_CASE("a trace without repeated blocks stays as it is") {
  const Result<Trace> trace = ParseTrace(
      "! memmodel-trace 1\no f\nm Linear fc\n# step b=1\na 1 8192 0 0 0\n# forward done\n"
      "f 1 8192 0 0 0\nc 1 8192 0 0 0\n",
      "t");
  REQUIRE(trace.ok());
  CHECK(BlocksOf(*trace).empty());
  CHECK(WithCheckpoints(*trace).events.size() == trace->events.size());
}

}  // namespace
}  // namespace memmodel
