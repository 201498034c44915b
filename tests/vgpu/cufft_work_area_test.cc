#include "src/vgpu/cufft_work_area.h"

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace memmodel::vgpu {
namespace {

constexpr Transform kC2C = Transform::kComplex;
constexpr Transform kR2C = Transform::kRealToComplex;
constexpr Transform kC2R = Transform::kComplexToReal;

FftPlan Packed(Transform transform, std::vector<std::int64_t> sizes, int real_bytes,
               std::int64_t batch) {
  FftPlan plan;
  plan.transform = transform;
  plan.sizes = std::move(sizes);
  plan.real_bytes = real_bytes;
  plan.batch = batch;
  return plan;
}

FftPlan Floats(const char* layout, Transform transform, std::vector<std::int64_t> sizes,
               std::int64_t batch) {
  FftPlan plan = Packed(transform, std::move(sizes), 4, batch);
  plan.layout = layout;
  return plan;
}

const FftSizes& Hopper() {
  static const FftSizes sizes = [] {
    std::ifstream file(MEMMODEL_SOURCE_DIR "/data/cufft/h200.sizes");
    std::stringstream text;
    text << file.rdbuf();
    auto parsed = FftSizes::Parse(text.str());
    REQUIRE(parsed.ok());
    return *std::move(parsed);
  }();
  return sizes;
}

TEST_CASE("work areas are those that cuFFT 12.0 asked for on an NVIDIA H200") {
  struct Row {
    FftPlan plan;
    std::int64_t bytes;
  };
  const std::vector<Row> rows = {
      // One kernel.
      {Packed(kR2C, {400}, 4, 64), 0},
      {Packed(kR2C, {2048}, 4, 8), 0},
      {Packed(kC2C, {1021}, 4, 7), 0},
      {Packed(kC2C, {98}, 4, 7), 0},
      {Packed(kR2C, {224, 224}, 4, 1), 0},
      {Packed(kC2R, {14, 14}, 4, 2), 0},
      {Packed(kC2R, {128, 384}, 4, 32), 0},
      // The signal.
      {Packed(kC2C, {74}, 4, 7), 4144},
      {Packed(kC2C, {16000}, 8, 3), 768000},
      {Packed(kC2C, {32768}, 2, 8), 1048576},
      {Packed(kC2C, {119, 224}, 4, 32), 6823936},
      {Packed(kC2C, {48, 85, 112}, 4, 1), 48 * 85 * 112 * 8},
      {Floats("-strided", kC2C, {98}, 1), 784},
      {Floats("-strided", kC2C, {268}, 32), 68608},
      // Half of it, or the spectrum.
      {Packed(kR2C, {1200}, 4, 64), 307200},
      {Packed(kR2C, {148}, 4, 7), 4200},
      {Packed(kC2R, {119, 72, 8}, 4, 6), 2056320},
      {Packed(kC2R, {178, 9}, 4, 6), 42720},
      {Floats("-strided", kC2R, {1098}, 1), 4400},
      // Pairs of signals, twice.
      {Packed(kR2C, {75}, 4, 7), 5472},
      {Packed(kC2R, {213}, 4, 7), 13984},
      {Packed(kR2C, {6, 213}, 4, 1), 21488},
      {Packed(kC2R, {65, 191}, 4, 2), 199672},
      {Packed(kC2R, {32, 257}, 8, 2), 263680},
      {Floats("-strided", kR2C, {1259}, 6), 60936},
      // The whole spectrum of a real signal.
      {Floats("-padded", kR2C, {768}, 7), 0},
      {Floats("-padded", kR2C, {148}, 7), 4200},
      {Floats("-padded", kR2C, {19}, 7), 1632},  // packed: 0
      {Floats("-padded", kR2C, {212, 112}, 2), 193344},
      {Floats("-padded", kR2C, {112, 224, 221}, 7), 354844672},
      // Columns: with several dimensions the last one of a complex signal is a row.
      {Floats("-columns", kC2C, {512}, 64), 0},
      {Floats("-columns", kC2C, {145}, 64), 74240},
      {Floats("-columns", kC2C, {28, 145}, 64), 0},
      {Floats("-columns", kC2C, {145, 28}, 16), 519680},
      {Floats("-columns", kR2C, {14}, 64), 3584},
      {Floats("-columns", kR2C, {14, 215}, 16), 386176},
      {Floats("-columns", kC2R, {56, 14}, 64), 200704},
      {Floats("-columns-padded", kR2C, {56}, 224), 0},
      {Floats("-columns-padded", kR2C, {187}, 14), 21736},
      // Overlapping frames.
      {Floats("-frames", kR2C, {768}, 64), 0},
      {Floats("-frames", kR2C, {855}, 2), 14008},
      {Floats("-frames", kC2C, {488}, 4096), 15990784},
      // Large batches.
      {Packed(kR2C, {400}, 4, 50000), 0},
      {Packed(kC2R, {213}, 4, 4096), 6995968},
      {Packed(kC2C, {148}, 4, 6144), 7274496},
  };
  for (const Row& row : rows) {
    INFO(row.plan.sizes.front(), " and ", row.plan.sizes.size() - 1, " more, batch ",
         row.plan.batch);
    const std::optional<std::int64_t> bytes = Hopper().WorkArea(row.plan);
    REQUIRE(bytes.has_value());
    CHECK(*bytes == row.bytes);
  }
}

TEST_CASE("of what the plans do not show there is no work area") {
  CHECK(Hopper().compute_capability() == 90);
  CHECK(!Hopper().WorkArea(Packed(kC2C, {15889}, 4, 100)));  // Bluestein's algorithm in memory
  CHECK(!Hopper().WorkArea(Packed(kC2R, {4688}, 4, 1)));     // for its half
  CHECK(Hopper().WorkArea(Packed(kC2C, {32768}, 4, 64)) == 16777216);
  CHECK(!Hopper().WorkArea(Packed(kC2C, {32768}, 4, 65)));
  CHECK(!Hopper().WorkArea(Packed(kC2C, {16, 16}, 2, 1)));  // half precision has one dimension
  CHECK(!Hopper().WorkArea(Packed(kC2C, {16}, 3, 1)));
  CHECK(!Hopper().WorkArea(Packed(kC2C, {0}, 4, 1)));
  CHECK(!Hopper().WorkArea(Packed(kC2C, {1 << 20, 1 << 20, 1 << 20}, 4, 1)));
  CHECK(!Hopper().WorkArea(Packed(kC2C, {}, 4, 1)));
  CHECK(!Hopper().WorkArea(Packed(kC2C, {1, 16}, 4, 1)));
  // Layouts that were measured with fewer dimensions, or floats only.
  CHECK(!Hopper().WorkArea(Floats("-strided", kC2C, {16, 16}, 1)));
  CHECK(!Hopper().WorkArea(Floats("-columns", kC2C, {16, 16, 16}, 64)));
  CHECK(!Hopper().WorkArea(Floats("-columns-padded", kR2C, {16, 16}, 64)));
  FftPlan columns = Floats("-columns", kC2C, {16, 16}, 64);
  CHECK(Hopper().WorkArea(columns) == 0);
  columns.real_bytes = 8;
  CHECK(!Hopper().WorkArea(columns));
}

TEST_CASE("sizes between measured ones follow where there is no exception") {
  const auto few = FftSizes::Parse("# memmodel cuFFT sizes 1; compute capability 90; source: -\n");
  REQUIRE(few.ok());
  CHECK(few->WorkArea(Packed(kC2C, {4050}, 4, 2)) == 0);
  CHECK(few->WorkArea(Packed(kC2C, {4051}, 4, 2)) == 0);  // a prime
  CHECK(!few->WorkArea(Packed(kC2C, {4051}, 8, 2)));
  CHECK(!few->WorkArea(Packed(kC2C, {74}, 4, 2)));
  CHECK(few->WorkArea(Packed(kC2R, {302}, 4, 2)) == 151 * 8 * 2);
  CHECK(!few->WorkArea(Packed(kC2R, {300}, 4, 2)));
}

TEST_CASE("a damaged list of sizes is not read") {
  const std::string head = "# memmodel cuFFT sizes 1; compute capability 90; source: this test\n";
  CHECK(FftSizes::Parse(head + "c2c 4 one 2-5 7\n").ok());
  for (const char* line : {"c2c 4 some 2", "c2c four one 2", "c2c 4 one 5-2", "c2c 4 one 2-",
                           "c2c 4 one -2", "c2c 4 one 0", "c2c 4 one 2-99999999999", "c2c"}) {
    INFO(line);
    CHECK(!FftSizes::Parse(head + line + "\n").ok());
  }
  CHECK(!FftSizes::Parse("").ok());
  CHECK(!FftSizes::Parse("# memmodel cuFFT sizes 2; compute capability 90\n").ok());
}

}  // namespace
}  // namespace memmodel::vgpu
