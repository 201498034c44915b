#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "src/core/atomic_file.h"
#include "src/report/html.h"
#include "tests/html/sample_trace.h"

namespace memmodel {
namespace {

std::string Page() {
  setenv("MEMMODEL_DATA", MEMMODEL_SOURCE_DIR "/data", 1);
  const Result<Trace> trace = ParseTrace(test::kSampleTrace, "sample");
  REQUIRE(trace.ok());
  PredictOptions options;
  options.job.model = "models/evil</script><b>.pt";
  options.device.device_name = "A card of 24 GiB";
  options.total_bytes = 24 * kGiB;
  Prediction prediction;
  prediction.reason = "fits";
  prediction.batch = 4;
  prediction.peak = Peak{109568, 2 * kMiB, 602 * kMiB};
  prediction.largest_batch = 57;
  prediction.assumptions = {"optimizer sgd"};
  for (const std::int64_t b : {1, 8, 32, 64}) {
    prediction.curve.push_back({b, {b * 300 * kMiB, b * 330 * kMiB, b * 330 * kMiB + 600 * kMiB}});
  }
  const Result<MemoryUse> use = Classify(*trace);
  REQUIRE(use.ok());
  prediction.use = *use;
  const HtmlExplanation explanation{{"A sentence."}, {{"bf16", 1000, 99, false}}};
  const Result<std::string> page = FormatHtml(options, prediction, *trace, explanation);
  REQUIRE_MESSAGE(page.ok(), page.status().message());
  return *page;
}

TEST_CASE("the page needs nothing but itself, and names cannot break out of it") {
  const std::string page = Page();
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("<link") == std::string::npos);
  CHECK(page.find("@import") == std::string::npos);
  CHECK(page.find("BSD 3-clause") != std::string::npos);
  CHECK(page.find("evil</script>") == std::string::npos);
  CHECK(page.find("@DATA@") == std::string::npos);
  // d3, the data and the page's own script close, and nothing else does.
  std::size_t closings = 0;
  for (std::size_t at = 0; (at = page.find("</script>", at)) != std::string::npos; ++at) ++closings;
  CHECK(closings == 3);
  // browser_test.py opens it.
  const std::string folder = MEMMODEL_BINARY_DIR "/tests";
  std::filesystem::create_directories(folder);
  CHECK(WriteFileAtomically(folder + "/html_sample.html", page).ok());
  CHECK(WriteFileAtomically(folder + "/html_sample.trace", test::kSampleTrace).ok());
}

TEST_CASE("without the data folder the page is refused") {
  setenv("MEMMODEL_DATA", "/no/such/folder", 1);
  const Result<Trace> trace = ParseTrace(test::kSampleTrace, "sample");
  CHECK_FALSE(FormatHtml(PredictOptions(), Prediction(), *trace).ok());
  setenv("MEMMODEL_DATA", MEMMODEL_SOURCE_DIR "/data", 1);
}

}  // namespace
}  // namespace memmodel
