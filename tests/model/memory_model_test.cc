#include "memmodel/memory_model.h"

#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

MemoryModel Fitted(std::initializer_list<std::int64_t> batches, const ModelOptions& options = {}) {
  const std::vector<Trace> traces = test::Samples(batches);
  Result<MemoryModel> model = MemoryModel::Fit(traces, options);
  REQUIRE(model.ok());
  return *std::move(model);
}

TEST_CASE("batches that were not traced are answered as if they had been") {
  const MemoryModel model = Fitted({1, 7, 8, 64});
  for (const std::int64_t b : {2, 3, 5, 9, 33, 63}) {
    CAPTURE(b);
    const Result<BatchMemory> memory = model.At(b);
    REQUIRE(memory.ok());
    CHECK(memory->basis == ModelBasis::kExact);
    // Only small blocks: nothing is left unsplit, allocated is the live sum.
    CHECK(memory->allocated == test::WalkedPeak(test::Sample(b)));
    CHECK(memory->requested_peak == memory->allocated);
    CHECK(memory->reserved % (2 * kMiB) == 0);
    CHECK(memory->reserved >= memory->allocated);
    CHECK_FALSE(memory->device.has_value());
  }
}

TEST_CASE("between two batches that differ both are in the range") {
  const MemoryModel model = Fitted({2, 4, 16, 32});
  const Result<BatchMemory> memory = model.At(6);
  REQUIRE(memory.ok());
  CHECK(memory->basis == ModelBasis::kInterpolated);
  // By hand, in the second step: 6144 of weights and 6144 of gradients; with the
  // workspace, as below 8, 3072 * 6 + 65536 more; without it the peak is in the
  // backward pass, 5632 * 6 + 512 more.
  CHECK(memory->allocated_range.high == 96256);
  CHECK(memory->allocated_range.low == 46592);
  CHECK(model.At(64)->basis == ModelBasis::kExtrapolated);
  CHECK(model.At(4)->basis == ModelBasis::kTraced);
}

TEST_CASE("the largest batch is the last that fits, with context and other users counted") {
  ModelOptions options;
  options.context_bytes = 100 * kMiB;
  const MemoryModel model = Fitted({1, 7, 8, 64}, options);
  const GpuBudget budget{.total_bytes = 200 * kMiB, .used_bytes = 10 * kMiB, .target = 0.8};
  const Result<BatchLimit> limit = model.Solve(budget);
  REQUIRE(limit.ok());
  CHECK(limit->budget_bytes == 150 * kMiB);
  CHECK(model.At(limit->batch)->device <= 150 * kMiB);
  CHECK(*model.At(limit->batch + 1)->device > 150 * kMiB);
  CHECK(limit->memory->batch == limit->batch);
  CHECK(limit->bounded);
  // Nothing fits beside 155 MiB that others use.
  const Result<BatchLimit> none =
      model.Solve({.total_bytes = 200 * kMiB, .used_bytes = 155 * kMiB, .target = 0.8});
  REQUIRE(none.ok());
  CHECK(none->batch == 0);
  CHECK_FALSE(none->memory.has_value());
}

TEST_CASE("questions outside the model's range are refused") {
  const MemoryModel model = Fitted({1, 8});
  CHECK_FALSE(model.At(0).ok());
  CHECK_FALSE(model.At(MemoryModel::kLargestBatch + 1).ok());
  CHECK_FALSE(model.Solve({.total_bytes = 0}).ok());
  CHECK_FALSE(model.Solve({.total_bytes = kGiB, .target = 1.5}).ok());
  CHECK(model.At(MemoryModel::kLargestBatch).ok());
}

TEST_CASE("the requests at a batch are those of a trace at that batch") {
  const MemoryModel model = Fitted({1, 7, 8, 64});
  const Trace made = model.Synthesise(5);
  const Trace traced = test::Sample(5);
  std::vector<std::pair<char, Bytes>> a, b;
  for (const Event& e : made.events) {
    if (e.kind != EventKind::kTag) a.emplace_back(static_cast<char>(e.kind), e.size);
  }
  for (const Event& e : traced.events) {
    if (e.kind != EventKind::kTag) b.emplace_back(static_cast<char>(e.kind), e.size);
  }
  CHECK(a == b);
  CHECK(test::WalkedPeak(made) == test::WalkedPeak(traced));
}

TEST_CASE("allocator settings are parsed and used") {
  ModelOptions options;
  options.alloc_conf = "no_such_key:1";
  const std::vector<Trace> traces = test::Samples({1, 8});
  CHECK_FALSE(MemoryModel::Fit(traces, options).ok());
  options.alloc_conf = "roundup_power2_divisions:1";
  CHECK(MemoryModel::Fit(traces, options).ok());
}

}  // namespace
}  // namespace memmodel
