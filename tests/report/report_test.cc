#include "memmodel/report.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/report/text.h"

using namespace memmodel;

namespace {

PredictOptions Options() {
  PredictOptions options;
  options.job.model = "models/resnet50.pt";
  options.device.name = "rtx4090";
  options.device.device_name = "NVIDIA GeForce RTX 4090";
  options.device.provenance = "datasheet";
  options.device.sources = {{{"context.*"}, "estimate", "a test"}};
  options.total_bytes = 24 * kGiB;
  options.assumed = {"gpu", "optimizer"};
  options.assumptions = {"optimizer adamw with torch's defaults (--optimizer)"};
  return options;
}

// Figures on paper: allocated 10 GiB, reserved 12, context 1: 13 on the card.
Prediction Figures() {
  Prediction prediction;
  prediction.verdict = Verdict::kFits;
  prediction.reason = "batch 57 takes 13.00 GiB of the 80 % of 24.00 GiB that the target allows; "
                      "batch 58 does not fit";
  prediction.model_kind = "torchscript";
  prediction.inputs = {{"", {3, 224, 224}, "float32", true}};
  prediction.loss = "ce";
  prediction.assumptions = {"input 3x224x224, found by trying (--input)"};
  prediction.batch = 57;
  prediction.peak = Peak{10 * kGiB, 12 * kGiB, 13 * kGiB};
  prediction.interval = Interval{12 * kGiB + kGiB / 2, 13 * kGiB + kGiB / 2,
                                 "context of NVIDIA GeForce RTX 4090 (estimated, not measured)"};
  prediction.context = kGiB;
  prediction.largest_batch = 57;
  prediction.largest_batch_before_oom = 71;
  prediction.retries = 0;
  prediction.segments = 40;
  prediction.curve = {{8, {kGiB, 2 * kGiB, 3 * kGiB}}, {57, *prediction.peak}};
  MemoryUse use;
  use.breakdown.bytes[static_cast<int>(MemoryKind::kActivations)] = 8 * kGiB;
  use.breakdown.bytes[static_cast<int>(MemoryKind::kWeights)] = kGiB;
  use.breakdown.bytes[static_cast<int>(MemoryKind::kOptimizerState)] = kGiB;
  use.breakdown.allocated_peak = 10 * kGiB;
  use.breakdown.reserved_peak = 12 * kGiB;
  use.breakdown.step = 1;
  use.breakdown.phase = Phase::kBackward;
  use.breakdown.op = "aten::convolution_backward";
  use.breakdown.module = "layer1.0.conv3";
  use.layers = {{"layer1.0.conv3", "Conv2d", kMiB, 100 * kMiB, 50 * kMiB, 1.5 * kMiB},
                {"a.very.long.path.of.a.module.that.does.not.fit.its.column", "Linear", 3 * kMiB,
                 10 * kMiB, 0, 0.25 * kMiB},
                {"fc", "Linear", 8 * kMiB, 0, 0, 0.0},
                {"relu", "ReLU", 0, kMiB, 0, 0.0}};
  use.phases = {{0, Phase::kForward, 9 * kGiB, 12 * kGiB}};
  prediction.use = use;
  prediction.torch_version = "2.11.0+cu130";
  prediction.cudnn_version = 91900;
  return prediction;
}

std::string Golden(const std::string& name) {
  std::ifstream file(std::string(MEMMODEL_TEST_DATA) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the table is as it was read and found good") {
  const std::string table = FormatTable(Options(), Figures());
  CHECK_MESSAGE(table == Golden("table_fits.txt"), table);
}

TEST_CASE("no line of the table is wider than 80 columns") {
  std::istringstream lines(FormatTable(Options(), Figures()));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= kColumns);
    CHECK((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("the verdict comes first") {
  Prediction prediction = Figures();
  CHECK(FormatTable(Options(), prediction).starts_with("FITS: resnet50.pt, largest batch 57\n"));
  prediction.verdict = Verdict::kDoesNotFit;
  CHECK(FormatTable(Options(), prediction).starts_with("DOES NOT FIT: resnet50.pt\n"));
  prediction.verdict = Verdict::kUnknown;
  CHECK(FormatTable(Options(), prediction).starts_with("UNKNOWN: resnet50.pt\n"));
}

TEST_CASE("JSON has the fields of docs/json.md") {
  const nlohmann::json json = nlohmann::json::parse(FormatJson(Options(), Figures()));
  CHECK(json.at("schema_version") == 1);
  CHECK(json.at("verdict") == "fits");
  CHECK(json.at("batch") == 57);
  CHECK(json.at("peak").at("device_bytes") == 13 * kGiB);
  CHECK(json.at("request").at("inputs").at(0).at("assumed") == true);
  CHECK(json.at("request").at("assumed").size() == 2);
  CHECK(json.at("breakdown").at("activations") == 8 * kGiB);
  CHECK(json.at("breakdown").at("fragmentation") == 2 * kGiB);
  Bytes sum = 0;
  for (const auto& [kind, bytes] : json.at("breakdown").items()) sum += bytes.get<Bytes>();
  CHECK(sum == 13 * kGiB);
  CHECK(json.at("breakdown").size() == 10);
  CHECK(json.at("largest_batch") == 57);
  CHECK(json.at("largest_batch_before_oom") == 71);
  CHECK(json.at("layers").size() == 4);
  CHECK(json.at("layers").at(0).at("activation_bytes_per_sample") == 1.5 * kMiB);
  CHECK(json.at("curve").at(1).at("reserved_bytes") == 12 * kGiB);
  CHECK(json.at("provenance").at("device") == "datasheet");
  CHECK(json.at("provenance").at("context") == "estimate");
  CHECK(json.at("timings_ms").contains("total"));
}

TEST_CASE("what is not known is left out, never 0") {
  Prediction prediction;
  prediction.reason = "unknown";
  const nlohmann::json json = nlohmann::json::parse(FormatJson(Options(), prediction));
  CHECK(json.at("verdict") == "unknown");
  for (const char* field : {"batch", "peak", "interval", "breakdown", "largest_batch",
                            "largest_batch_before_oom", "allocator", "layers", "phases", "curve",
                            "certain_bytes"}) {
    CAPTURE(field);
    CHECK_FALSE(json.contains(field));
  }
  Prediction script = Figures();  // one without a module has a peak and no batch
  script.batch.reset();
  script.largest_batch.reset();
  const std::string table = FormatTable(Options(), script);
  CHECK(table.starts_with("FITS: resnet50.pt\n"));
  CHECK(table.find("\nAt the peak\n") != std::string::npos);
}

TEST_CASE("text is broken at spaces and columns are filled") {
  CHECK(Wrap("- ", "a b") == "- a b\n");
  const std::string wrapped = Wrap("  - ", std::string(40, 'x') + " " + std::string(40, 'y'));
  CHECK(wrapped == "  - " + std::string(40, 'x') + "\n    " + std::string(40, 'y') + "\n");
  CHECK(PadLeft("12", 4) == "  12");
  CHECK(PadRight("12", 4) == "12  ");
  CHECK(PadRight("a.long.path.of.a.layer", 11) == "a.lo...ayer");
  CHECK(PadRight("\xc3\xa9", 3) == "\xc3\xa9  ");  // one column, two bytes
}
