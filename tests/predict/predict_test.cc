// The child is tests/child/fake_child.py: a batch of b takes FAKE_BASE + b *
// FAKE_PER_SAMPLE bytes reserved, so that the right answers are arithmetic.
#include "memmodel/predict.h"

#include <doctest/doctest.h>

#include <numeric>
#include <string>

using namespace memmodel;

namespace {

constexpr Bytes kBase = kGiB;             // fake_child.py's default
constexpr Bytes kPerSample = 100 * kMiB;  // its default
constexpr Bytes kContext = 600 * kMiB + 2 * 60 * kMiB + 2 * 10 * kMiB;

PredictOptions Ask(const std::string& mode = "") {
  PredictOptions options;
  options.job.model = "x.pt";
  options.device.name = "test";
  options.device.device_name = "Test GPU";
  options.device.total_bytes = 24 * kGiB;
  options.device.context.base = 600 * kMiB;
  options.device.context.cublas_handle = 60 * kMiB;
  options.device.context.cudnn_handle = 10 * kMiB;
  options.child.program = std::string(MEMMODEL_SOURCE_DIR) + "/tests/child/fake_child.py";
  options.child.environment = {{"FAKE_MODE", mode}};
  options.child.load_timeout_s = options.child.probe_timeout_s = 20;
  return options;
}

// With cudnn.benchmark, and plans of the largest workspaces that take `per_sample` of a batch.
PredictOptions AskBenchmark(Bytes per_sample) {
  PredictOptions options = Ask();
  options.job.cudnn_benchmark = true;
  options.child.environment.emplace_back("FAKE_PER_SAMPLE_LARGEST", std::to_string(per_sample));
  return options;
}

Prediction Answer(const PredictOptions& options) {
  Result<Prediction> prediction = Predict(options);
  REQUIRE_MESSAGE(prediction.ok(), prediction.status().message());
  return *std::move(prediction);
}

}  // namespace

TEST_CASE("a batch that fits") {
  PredictOptions options = Ask();
  options.batch = 32;
  const Prediction prediction = Answer(options);
  CHECK(prediction.verdict == Verdict::kFits);
  CHECK(ExitCode(prediction) == 0);
  CHECK(*prediction.batch == 32);
  CHECK(prediction.peak->reserved == kBase + 32 * kPerSample);
  CHECK(*prediction.context == kContext);
  CHECK(prediction.peak->device == prediction.peak->reserved + kContext);
  CHECK_FALSE(prediction.largest_batch.has_value());
  CHECK(prediction.assumptions.size() == 1);
}

TEST_CASE("the parts of the breakdown sum to what nvidia-smi shows") {
  PredictOptions options = Ask();
  options.batch = 32;
  const Prediction prediction = Answer(options);
  REQUIRE(prediction.use.has_value());
  const Breakdown& breakdown = prediction.use->breakdown;
  const Bytes sum =
      std::accumulate(std::begin(breakdown.bytes), std::end(breakdown.bytes), Bytes{0}) +
      breakdown.fragmentation() + *prediction.context;
  CHECK(sum == prediction.peak->device);
}

TEST_CASE("a batch that is above the target, and one that is above the card") {
  PredictOptions options = Ask();
  // 0.8 * 24 GiB = 19660.8 MiB; less the context 740 and the base 1024: 178.97 samples.
  options.batch = 178;
  CHECK(Answer(options).verdict == Verdict::kFits);
  options.batch = 179;
  const Prediction above = Answer(options);
  CHECK(above.verdict == Verdict::kDoesNotFit);
  CHECK(ExitCode(above) == 1);
  CHECK(above.reason.find("the target allows only") != std::string::npos);
  options.batch = 1000;
  const Prediction far = Answer(options);
  CHECK(far.verdict == Verdict::kDoesNotFit);
  CHECK(far.reason.find("runs out of memory") != std::string::npos);
  // What it would need is told all the same.
  CHECK(far.peak->reserved == kBase + 1000 * kPerSample);
}

TEST_CASE("the largest batch, within the target and before out of memory") {
  const Prediction prediction = Answer(Ask());
  CHECK(prediction.verdict == Verdict::kFits);
  CHECK(*prediction.largest_batch == 178);
  CHECK(*prediction.batch == 178);
  // The fake child's card charges no context; nine tenths of what it reserves are
  // in use: (24576 MiB / 0.9 - 1024) / 100 = 262.8.
  CHECK(*prediction.largest_batch_before_oom == 262);
  CHECK(prediction.use->layers.at(0).activation_bytes_per_sample ==
        doctest::Approx(0.9 * 100 * kMiB).epsilon(0.001));
  CHECK(prediction.curve.size() >= 3);
}

TEST_CASE("the allocator's limit caps what may be reserved") {
  PredictOptions options = Ask();
  options.target = 1;
  options.allocator_limit = 10 * kGiB;
  const Prediction prediction = Answer(options);
  CHECK(*prediction.largest_batch == 92);              // (10240 - 1024) / 100
  CHECK(*prediction.largest_batch_before_oom == 103);  // (10240 / 0.9 - 1024) / 100 = 103.5
}

TEST_CASE("what cudnn.benchmark fits and runs, it does whichever plans are the fastest") {
  PredictOptions options = AskBenchmark(110 * kMiB);
  const Prediction prediction = Answer(options);
  CHECK(*prediction.largest_batch == 162);             // (0.8 * 24576 - 740 - 1024) / 110 = 162.7
  CHECK(*prediction.largest_batch_before_oom == 238);  // (24576 / 0.9 - 1024) / 110 = 238.9
  // The figures are still those of the heuristic's plans.
  CHECK(prediction.peak->reserved == kBase + 162 * kPerSample);
  CHECK(prediction.interval->low == prediction.peak->device);
  CHECK(prediction.interval->high == kBase + 162 * 110 * kMiB + kContext);
  CHECK(prediction.interval->basis.find("largest workspaces") != std::string::npos);
  CHECK(prediction.assumptions.back().find("cudnn.benchmark") != std::string::npos);

  options.batch = 162;
  CHECK(Answer(options).verdict == Verdict::kFits);
  options.batch = 163;
  const Prediction above = Answer(options);
  CHECK(above.verdict == Verdict::kDoesNotFit);
  CHECK(above.peak->reserved == kBase + 163 * kPerSample);
  CHECK(above.reason.find("largest workspaces") != std::string::npos);
  options.batch = 200;  // nor with the heuristic's
  CHECK(Answer(options).reason.find("the target allows only") != std::string::npos);
}

TEST_CASE("plans of the largest workspaces may need less of the card") {
  const Prediction prediction = Answer(AskBenchmark(90 * kMiB));
  CHECK(*prediction.largest_batch == 178);
  CHECK(*prediction.largest_batch_before_oom == 262);
  CHECK(prediction.interval->low == kBase + 178 * 90 * kMiB + kContext);
  CHECK(prediction.interval->high == prediction.peak->device);
}

TEST_CASE("a batch that runs with one kind of plans alone does not count") {
  PredictOptions options = AskBenchmark(110 * kMiB);
  options.child.environment.emplace_back("FAKE_HOLE", "238");
  // 238 runs with the largest workspaces alone.
  CHECK(*Answer(options).largest_batch_before_oom == 237);
}

TEST_CASE("a real GPU knows its fastest plans") {
  PredictOptions options = AskBenchmark(110 * kMiB);
  options.job.device = DeviceKind::kCuda;
  const Prediction prediction = Answer(options);
  CHECK(*prediction.largest_batch == 178);
  CHECK(*prediction.largest_batch_before_oom == 262);
  CHECK(prediction.interval->high == prediction.peak->device);
}

TEST_CASE("no batch fits a small card") {
  PredictOptions options = Ask();
  options.total_bytes = 2 * kGiB;
  options.child.environment.emplace_back("FAKE_BASE", std::to_string(8 * kGiB));
  const Prediction prediction = Answer(options);
  CHECK(prediction.verdict == Verdict::kDoesNotFit);
  CHECK(*prediction.largest_batch == 0);
  CHECK(*prediction.largest_batch_before_oom == 0);
  CHECK(*prediction.batch == 1);
  CHECK(prediction.peak->reserved == 8 * kGiB + kPerSample);
}

TEST_CASE("values that a kernel computes make the answer unknown, with their names") {
  PredictOptions options = Ask("unknown");
  options.batch = 4;
  const Prediction prediction = Answer(options);
  CHECK(prediction.verdict == Verdict::kUnknown);
  CHECK(ExitCode(prediction) == 3);
  CHECK(prediction.reason.find("aten::nonzero in roi_heads") != std::string::npos);
  CHECK_FALSE(prediction.peak.has_value());  // not known, so not given
  CHECK_FALSE(prediction.use.has_value());
  options.unknown_count = 1.0;
  const Prediction bound = Answer(options);
  CHECK(bound.verdict == Verdict::kFits);
  CHECK(bound.peak.has_value());
  CHECK(bound.unknown.size() == 1);
  // The fake child takes half of it with none of the unknown values.
  CHECK(bound.interval->low == (kBase + 4 * kPerSample) / 2 + kContext);
  CHECK(bound.interval->high == bound.peak->device);
}

TEST_CASE("a file without a program gives what is certain") {
  // 100 MiB of parameters: with gradients and AdamW's two states 400 MiB.
  const Prediction prediction = Answer(Ask("state_dict"));
  CHECK(prediction.verdict == Verdict::kUnknown);
  CHECK(*prediction.certain_bytes == 400 * kMiB + 600 * kMiB);
  CHECK(prediction.reason.find("scripts/export_model.py") != std::string::npos);
  PredictOptions options = Ask("state_dict");
  options.job.optimizer = *ParseOptimizer("sgd:momentum=0.9");
  CHECK(*Answer(options).certain_bytes == 300 * kMiB + 600 * kMiB);
  options.job.mode = Mode::kInfer;
  CHECK(*Answer(options).certain_bytes == 100 * kMiB + 600 * kMiB);
}

TEST_CASE("a file that was exported for one batch") {
  const Prediction prediction = Answer(Ask("fixed"));
  CHECK(*prediction.batch == 16);
  CHECK_FALSE(prediction.largest_batch.has_value());
  PredictOptions options = Ask("fixed");
  options.batch = 32;
  const Result<Prediction> refused = Predict(options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a model that does not run is the user's to mend: operator and module are named") {
  const Result<Prediction> prediction = Predict(Ask("error"));
  REQUIRE_FALSE(prediction.ok());
  CHECK(prediction.status().code() == StatusCode::kBadInput);
  CHECK(prediction.status().message().find("aten::addmm") != std::string::npos);
  CHECK(prediction.status().message().find("head") != std::string::npos);
}

TEST_CASE("options that cannot be meant are refused by name") {
  const auto refuses = [](void (*change)(PredictOptions*), const char* option) {
    PredictOptions options = Ask();
    options.total_bytes = 24 * kGiB;
    change(&options);
    std::string reason;
    CHECK_FALSE(IsValid(options, &reason));
    CHECK_MESSAGE(reason.find(option) != std::string::npos, reason);
  };
  refuses([](PredictOptions* o) { o->batch = 0; }, "--batch");
  refuses([](PredictOptions* o) { o->target = 0; }, "--target");
  refuses([](PredictOptions* o) { o->target = 1.1; }, "--target");
  refuses([](PredictOptions* o) { o->steps = 0; }, "--steps");
  refuses([](PredictOptions* o) { o->total_bytes = 300 * kMiB; }, "--gpu-mem");
  refuses([](PredictOptions* o) { o->device.unsupported = "too old"; }, "too old");
}
