#include "memmodel/diff.h"

#include <doctest/doctest.h>

namespace memmodel {
namespace {

Trace Parsed(const std::string& text) {
  Result<Trace> trace = ParseTrace(text, "test");
  REQUIRE(trace.ok());
  return *std::move(trace);
}

TraceDiff Diffed(const std::string& a, const std::string& b, const DiffOptions& options = {}) {
  Result<TraceDiff> diff = DiffTraces(Parsed(a), Parsed(b), options);
  REQUIRE(diff.ok());
  return *std::move(diff);
}

const std::string kHead = "! memmodel-trace 1\no aten::convolution\no aten::relu\nm Conv2d conv1\n";
const std::string kLoad = "# load\na 1000 4096 0\n";

TEST_CASE("addresses, segments and rounding below 512 do not make a difference") {
  const TraceDiff diff =
      Diffed(kLoad + "# step b=2\nS 9000 2097152 0\na 9000 1000 0\nf 9000 1000 0\nc 9000 1000 0\n",
             kLoad + "# step b=2\na 7000 1024 0\nf 7000 1024 0\nc 7000 1024 0\n# end\n");
  CHECK(diff.identical);
  REQUIRE(diff.parts.size() == 2);
  CHECK(diff.parts[0].name == "load");
  CHECK(diff.parts[1].name == "step 1 (b=2)");
  CHECK(diff.parts[1].matched == 1);
  CHECK(diff.parts[1].peak_a == 4096 + 1024);
}

TEST_CASE("another size is one difference, its release none") {
  const TraceDiff diff = Diffed(
      kHead + kLoad +
          "# step b=2\na 1 65536 0 0 0\na 2 32768 0 0 0\nf 2 32768 0 0 0\na 3 16384 0 1 -1\n",
      kLoad + "# step b=2\na 1 65536 0\na 2 49152 0\nf 2 49152 0\na 3 16384 0\n");
  CHECK_FALSE(diff.identical);
  REQUIRE(diff.differences.size() == 1);
  const Difference& d = diff.differences[0];
  CHECK(d.kind == DifferenceKind::kSize);
  CHECK(d.bytes_a == 32768);
  CHECK(d.bytes_b == 49152);
  CHECK(d.phase == Phase::kForward);
  CHECK(d.context.operator_name == "aten::convolution");
  CHECK(d.context.module_path == "conv1");
  CHECK_FALSE(d.context.inferred);
  CHECK(diff.parts[1].peak_a == 4096 + 65536 + 32768);
  CHECK(diff.parts[1].peak_b == 4096 + 65536 + 49152);
  REQUIRE(diff.groups.size() == 1);
  CHECK(diff.groups[0].family == "convolution");
  CHECK(diff.groups[0].library == "cuDNN");
  CHECK(diff.groups[0].size == 1);
}

TEST_CASE("what only the bare stream has is placed after the operator before it") {
  const TraceDiff diff =
      Diffed(kHead + kLoad + "# step b=2\na 1 65536 0 0 0\na 3 16384 0 1 -1\n",
             kLoad + "# step b=2\na 1 65536 0\na 2 49152 0\nf 2 49152 0\na 3 16384 0\n");
  REQUIRE(diff.differences.size() == 1);
  CHECK(diff.differences[0].kind == DifferenceKind::kOnlyB);
  CHECK(diff.differences[0].bytes_b == 49152);
  CHECK(diff.differences[0].event_a == -1);
  CHECK(diff.differences[0].context.operator_name == "aten::convolution");
  CHECK(diff.differences[0].context.inferred);
}

TEST_CASE("a block released later is one difference of order") {
  const TraceDiff diff =
      Diffed(kLoad + "# step b=2\na 1 65536 0\na 2 512 0\nf 1 65536 0\na 3 1024 0\na 4 2048 0\n",
             kLoad + "# step b=2\na 1 65536 0\na 2 512 0\na 3 1024 0\nf 1 65536 0\na 4 2048 0\n");
  REQUIRE(diff.differences.size() == 1);
  CHECK(diff.differences[0].kind == DifferenceKind::kOrder);
  CHECK(diff.parts[1].matched == 4);
}

TEST_CASE("releases of equal size that swap their blocks are seen") {
  const TraceDiff diff =
      Diffed(kLoad + "# step b=2\na 1 1024 0\na 2 1024 0\nf 1 1024 0\na 3 512 0\nf 2 1024 0\n",
             kLoad + "# step b=2\na 1 1024 0\na 2 1024 0\nf 2 1024 0\na 3 512 0\nf 1 1024 0\n");
  CHECK(diff.differences.size() == 2);  // both blocks
  CHECK(diff.differences[0].kind == DifferenceKind::kOrder);
}

TEST_CASE("a missing step and a missing marker are differences") {
  const std::string step = "# step b=2\na 1 65536 0\n# forward done\nf 1 65536 0\n# step done\n";
  const std::string bare = "# step b=2\na 1 65536 0\nf 1 65536 0\n# step done\n";
  CHECK(Diffed(kLoad + step, kLoad + bare).differences[0].kind == DifferenceKind::kMarker);
  const TraceDiff diff = Diffed(kLoad + step + step, kLoad + step);
  CHECK_FALSE(diff.identical);
  REQUIRE(diff.parts.size() == 3);
  CHECK(diff.parts[2].requests_b == 0);
}

TEST_CASE("the load is left out when asked") {
  DiffOptions options;
  options.skip_load = true;
  const std::string step = "# step b=2\na 2 65536 0\n";
  CHECK_FALSE(Diffed(kLoad + step, "# load\na 1 8192 0\n" + step).identical);
  CHECK(Diffed(kLoad + step, "# load\na 1 8192 0\n" + step, options).identical);
}

TEST_CASE("a trace without requests is refused") {
  const Result<TraceDiff> diff = DiffTraces(Parsed(kLoad), Parsed("# load\n"));
  REQUIRE_FALSE(diff.ok());
  CHECK(diff.status().message() == "the second trace holds no requests");
}

TEST_CASE("both outputs hold the counts") {
  const TraceDiff diff =
      Diffed(kLoad + "# step b=2\na 2 1024 0\n", kLoad + "# step b=2\na 2 2048 0\n");
  const std::string text = FormatDiff(diff, "x", "y", 10);
  CHECK(text.find("A asks for 1024 bytes, B for 2048 bytes") != std::string::npos);
  const std::string json = DiffToJson(diff, "x", "y", 10);
  CHECK(json.find("\"difference_count\": 1") != std::string::npos);
  CHECK(json.find("\"identical\": false") != std::string::npos);
}

}  // namespace
}  // namespace memmodel
