#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "memmodel/breakdown.h"

using namespace memmodel;

namespace {

constexpr Bytes kSegment = 20 * kMiB;

MemoryUse Use(const std::string& text) {
  Result<Trace> trace = ParseTrace(text, "test");
  REQUIRE_MESSAGE(trace.ok(), trace.status().message());
  Result<MemoryUse> use = Classify(*trace);
  REQUIRE_MESSAGE(use.ok(), use.status().message());
  return *std::move(use);
}

Bytes Sum(const Breakdown& breakdown) {
  return std::accumulate(std::begin(breakdown.bytes), std::end(breakdown.bytes), Bytes{0});
}

// One layer with a weight of 4 MiB, its output of 2 MiB, a workspace of 3 MiB and,
// in backward, the gradients of the output (2 MiB) and of the weight (4 MiB).
// All blocks are cut from one segment of 20 MiB, one after the other.
const char kOneLayer[] =
    "! memmodel-trace 1\n"
    "o aten::cudnn_convolution\n"
    "o aten::convolution_backward\n"
    "m Net \n"
    "m Conv2d conv1\n"
    "# load\n"
    "S 1000000 20971520 0\n"
    "a 1000000 4194304 0\n"
    "t weight 1000000 4194304 conv1.weight\n"
    "# step b=8\n"
    "a 1400000 2097152 0 0 1\n"   // output
    "a 1600000 3145728 0 0 1\n"   // workspace
    "f 1600000 3145728 0 0 1\n"
    "c 1600000 3145728 0 0 1\n"
    "# forward done\n"
    "a 1600000 2097152 0 1 1\n"   // gradient of the output
    "a 1800000 4194304 0 1 1\n"   // gradient of the weight
    "f 1600000 2097152 0\n"
    "c 1600000 2097152 0\n"
    "f 1400000 2097152 0\n"
    "c 1400000 2097152 0\n"
    "t gradient 1800000 4194304 conv1.weight\n"
    "# backward done\n"
    "a 1400000 1048576 0\n"       // optimizer state
    "t optimizer_state 1400000 1048576 conv1.weight.momentum_buffer\n"
    "# step done\n"
    "# end\n";

}  // namespace

TEST_CASE("kinds follow from a block's whole life") {
  const MemoryUse use = Use(kOneLayer);
  const Breakdown& peak = use.breakdown;
  // In backward: weight 4, output 2, its gradient 2, the weight's gradient 4 MiB.
  CHECK(peak.allocated_peak == 12 * kMiB);
  CHECK(peak.of(MemoryKind::kWeights) == 4 * kMiB);
  CHECK(peak.of(MemoryKind::kActivations) == 2 * kMiB);
  CHECK(peak.of(MemoryKind::kTemporaries) == 2 * kMiB);
  CHECK(peak.of(MemoryKind::kGradients) == 4 * kMiB);
  CHECK(peak.of(MemoryKind::kWorkspace) == 0);
  CHECK(Sum(peak) == peak.allocated_peak);
  CHECK(peak.reserved_peak == kSegment);
  CHECK(peak.fragmentation() == 8 * kMiB);
  CHECK(peak.step == 0);
  CHECK(peak.phase == Phase::kBackward);
  CHECK(peak.op == "aten::convolution_backward");
  CHECK(peak.module == "conv1");
}

TEST_CASE("layers own their weights, what they keep for backward, and their workspaces") {
  const MemoryUse use = Use(kOneLayer);
  REQUIRE(use.layers.size() == 1);
  CHECK(use.layers[0].path == "conv1");
  CHECK(use.layers[0].type == "Conv2d");
  CHECK(use.layers[0].weight_bytes == 4 * kMiB);
  CHECK(use.layers[0].activation_bytes == 2 * kMiB);
  CHECK(use.layers[0].workspace_bytes == 3 * kMiB);
  CHECK_FALSE(use.layers[0].activation_bytes_per_sample.has_value());
}

TEST_CASE("activations a sample come from two batches") {
  std::vector<LayerMemory> at8 = {{.path = "a", .activation_bytes = 80}};
  AddPerSample(&at8, 8, {{.path = "a", .activation_bytes = 20}}, 2);
  CHECK(*at8[0].activation_bytes_per_sample == doctest::Approx(10));
}

TEST_CASE("phases have their own peaks") {
  const MemoryUse use = Use(kOneLayer);
  REQUIRE(use.phases.size() == 4);
  CHECK(use.phases[0].phase == Phase::kLoad);
  CHECK(use.phases[0].allocated_peak == 4 * kMiB);
  CHECK(use.phases[1].phase == Phase::kForward);
  CHECK(use.phases[1].allocated_peak == 9 * kMiB);
  CHECK(use.phases[2].allocated_peak == 12 * kMiB);
  CHECK(use.phases[3].phase == Phase::kOptimizer);
  CHECK(use.phases[3].allocated_peak == 9 * kMiB);
  CHECK(use.phases[3].reserved == kSegment);
}

TEST_CASE("a rest that is not above 1 MiB stays in the block") {
  // 19.5 of 20 MiB: PyTorch counts 20 (DeviceCachingAllocator::should_split).
  const MemoryUse use = Use(
      "# load\nS 1000000 20971520 0\na 1000000 20447232 0\n# step b=1\n# step done\n# end\n");
  CHECK(use.breakdown.allocated_peak == 20 * kMiB);
  // 512 bytes are the smallest block, and 513 take two of them.
  const MemoryUse small =
      Use("# load\nS 1000000 2097152 0\na 1000000 1 0\na 1000200 513 0\n# end\n");
  CHECK(small.breakdown.allocated_peak == 3 * 512);
}

TEST_CASE("traces that contradict themselves are refused") {
  for (const char* text : {"a 1000000 512 0\n",                                       // no segment
                           "S 1000000 2097152 0\nf 1000000 512 0\n",                 // not live
                           "S 1000000 2097152 0\na 1000000 512 0\na 1000000 512 0\n",  // taken
                           "S 1000000 2097152 0\na 1000000 512 0\nX 1000000 2097152 0\n"}) {
    Result<Trace> trace = ParseTrace(text, "test");
    REQUIRE(trace.ok());
    const Result<MemoryUse> use = Classify(*trace);
    REQUIRE_FALSE(use.ok());
    CHECK(use.status().code() == StatusCode::kBadInput);
  }
}

TEST_CASE("block sizes give the allocator's own peaks on measured streams") {
  struct Recorded {
    const char* name;
    const char* conf;
    Bytes allocated, reserved;
  };
  for (const Recorded& r : {
           Recorded{"lstm_train3_expandable", "expandable_segments:True", 653861888, 675282944},
           Recorded{"lstm_train3_split64", "max_split_size_mb:64", 660676608, 687865856},
           Recorded{"lstm_train3_pow2", "roundup_power2_divisions:8", 677324288, 679477248},
           Recorded{"lstm_train3_pow2list", "roundup_power2_divisions:[1:2,4:4,64:8,>:1]",
                    667616768, 803209216},
           Recorded{"lstm_accum_default", "", 735879680, 788529152},
           Recorded{"lstm_grow_expandable", "expandable_segments:True", 669489152, 742391808},
           Recorded{"lstm_grow_gc_cap", "garbage_collection_threshold:0.6", 656122368, 767557632},
       }) {
    CAPTURE(r.name);
    Result<Trace> trace =
        ReadTrace(std::string(MEMMODEL_TEST_DATA) + "/recorded/" + r.name + ".trace.gz");
    REQUIRE(trace.ok());
    const Result<MemoryUse> use = Classify(*trace, {r.conf});
    REQUIRE_MESSAGE(use.ok(), use.status().message());
    CHECK(use->breakdown.allocated_peak == r.allocated);
    CHECK(use->breakdown.reserved_peak == r.reserved);
    CHECK(Sum(use->breakdown) == r.allocated);
  }
}
