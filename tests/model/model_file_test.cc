// Reading and writing the model file, damaged ones included.
#include <algorithm>
#include <cstdio>
#include <random>

#include "memmodel/memory_model.h"
#include "src/core/gzip.h"
#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

MemoryModel Model() {
  const std::vector<Trace> traces = test::Samples({1, 7, 8, 64});
  ModelOptions options;
  options.context_bytes = 7 * kMiB;
  options.curve_batches = 20;
  Result<MemoryModel> model = MemoryModel::Fit(traces, options);
  REQUIRE(model.ok());
  return *std::move(model);
}

MemoryModel PlannedModel() {
  const std::vector<Trace> traces = test::ConvolutionSamples({1, 7, 8, 64});
  ModelOptions options;
  options.curve_batches = 20;
  options.workspaces = test::Workspaces(64);
  Result<MemoryModel> model = MemoryModel::Fit(traces, options);
  REQUIRE(model.ok());
  return *std::move(model);
}

std::string Text(const MemoryModel& model) {
  const Result<std::string> text = GzipExpand(model.Format(), 1 << 24, "model");
  REQUIRE(text.ok());
  return *text;
}

TEST_CASE("what is read answers as what was written") {
  const MemoryModel model = Model();
  const Result<MemoryModel> read = MemoryModel::Parse(model.Format(), "model");
  REQUIRE(read.ok());
  CHECK(read->metadata() == "{\"batch\":1}");
  CHECK(read->traced_batches() == model.traced_batches());
  CHECK(read->context_bytes() == 7 * kMiB);
  for (const std::int64_t b : {1, 6, 20, 21, 500}) {
    CAPTURE(b);
    CHECK(read->At(b)->allocated == model.At(b)->allocated);
    CHECK(read->At(b)->reserved == model.At(b)->reserved);
    CHECK(read->At(b)->reserved_range.high == model.At(b)->reserved_range.high);
    CHECK(read->RequestedPeak(b) == model.RequestedPeak(b));
  }
  REQUIRE(read->layers().size() == model.layers().size());
  CHECK(read->layers().back().activations.beta == model.layers().back().activations.beta);
  CHECK(read->order_changes().size() == model.order_changes().size());
  CHECK(Text(*read) == Text(model));
}

TEST_CASE("a newer format is refused with both numbers") {
  std::string text = Text(Model());
  text.replace(text.find("memmodel-model 2"), 16, "memmodel-model 3");
  const Status status = MemoryModel::Parse(text, "m").status();
  CHECK(status.code() == StatusCode::kBadInput);
  CHECK(status.message() == "m has model format version 3, this program reads versions up to 2");
}

TEST_CASE("a model of version 1 is read") {
  std::string text = Text(Model());
  text.replace(text.find("memmodel-model 2"), 16, "memmodel-model 1");
  CHECK(MemoryModel::Parse(text, "m").ok());
}

TEST_CASE("pieces of a planned workspace are written and read, in order and from batch 1") {
  const MemoryModel model = PlannedModel();
  const std::string text = Text(model);
  // 65536 at 1..7, 0 from 8 on; then the traced sizes.
  CHECK(text.find("\ns p 64 2 1 65536 0 8 0 0 1 65536 7 65536 8 0 64 0\n") != std::string::npos);
  const Result<MemoryModel> read = MemoryModel::Parse(model.Format(), "model");
  REQUIRE(read.ok());
  CHECK(Text(*read) == text);
  CHECK(read->At(5)->basis == ModelBasis::kExact);
  const auto with = [&](const std::string& pieces) {
    std::string damaged = text;
    const std::size_t at = damaged.find("s p 64 2 1 65536 0 8 0 0");
    damaged.replace(at, 24, pieces);
    return MemoryModel::Parse(damaged, "m").ok();
  };
  CHECK(with("s p 64 2 1 65536 0 9 0 0"));
  CHECK_FALSE(with("s p 64 2 2 65536 0 8 0 0"));   // nothing at batch 1
  CHECK_FALSE(with("s p 64 2 1 65536 0 1 0 0"));   // twice
  CHECK_FALSE(with("s p 64 2 1 65536 0 65 0 0"));  // beyond the last
  CHECK_FALSE(with("s p 64 9 1 65536 0 8 0 0"));   // more pieces than there are
  CHECK_FALSE(with("s p 0 1 1 65536 0"));
}

TEST_CASE("occasions of the context are written and read") {
  const std::string head = "! memmodel-model 2\nb 1 2\nx step b=\ns c 512\nd cudnn_handle\n# 0\n";
  const std::string text = head + "a 0\nd first_kernel -1 -1 2\nd cublas_handle\nf 3\n. 10\n";
  const Result<MemoryModel> model = MemoryModel::Parse(text, "m");
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  CHECK(Text(*model).find("\nd cudnn_handle\n# 0\na 0\nd first_kernel -1 -1 2\n"
                          "d cublas_handle\nf 3\n") != std::string::npos);
  const auto occasions = [&](std::int64_t batch) {
    std::string names;
    for (const Event& event : model->Synthesise(batch).events) {
      if (event.kind != EventKind::kContext) continue;
      names.append(" ").append(OccasionName(event.occasion));
    }
    return names;
  };
  CHECK(occasions(1) == " cudnn_handle cublas_handle");
  CHECK(occasions(2) == " cudnn_handle first_kernel cublas_handle");
  CHECK_FALSE(MemoryModel::Parse(head + "d second_kernel\n. 7\n", "m").ok());
  CHECK_FALSE(MemoryModel::Parse(head + "d 0\n. 7\n", "m").ok());
  CHECK_FALSE(MemoryModel::Parse(head + "f 2\n. 7\n", "m").ok());  // an occasion is no block
}

TEST_CASE("other files are no models") {
  for (const char* text : {"", "a 1 2 0\n", "! memmodel-trace 1\n", "PK\x03\x04", "\n\n\n"}) {
    const Status status = MemoryModel::Parse(text, "m").status();
    CHECK(status.code() == StatusCode::kBadInput);
  }
  CHECK(MemoryModel::Read("/no/such/file").status().code() == StatusCode::kBadInput);
  CHECK(MemoryModel::Read("/").status().code() == StatusCode::kBadInput);
}

TEST_CASE("a truncated file is refused wherever it ends") {
  const MemoryModel model = Model();
  const std::string packed = model.Format(), text = Text(model);
  for (std::size_t n = 0; n < packed.size(); n += 7) {
    REQUIRE_FALSE(MemoryModel::Parse(packed.substr(0, n), "m").ok());
  }
  for (std::size_t n = 0; n + 1 < text.size(); n += 11) {
    REQUIRE_FALSE(MemoryModel::Parse(text.substr(0, n), "m").ok());
  }
}

// Any change is either refused or leaves a model that answers without a crash.
TEST_CASE("damaged lines do no harm") {
  const std::string texts[] = {Text(Model()), Text(PlannedModel())};
  std::mt19937 random(5);
  int accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string damaged = texts[round % 2];
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      const char* bytes = "0123456789 -afcptskd#.\nq";
      damaged[random() % damaged.size()] = bytes[random() % 24];
    }
    const Result<MemoryModel> model = MemoryModel::Parse(damaged, "m");
    if (!model.ok()) continue;
    ++accepted;
    CHECK(model->RequestedPeak(3) >= 0);
    CHECK(model->At(100).ok());
    (void)model->layers();
    (void)model->Solve({.total_bytes = kGiB});
  }
  CHECK(accepted > 0);
}

TEST_CASE("releases that would confuse the simulator are refused") {
  const std::string head = "! memmodel-model 1\nb 1 2\nx step b=\ns c 512\n";
  const auto parse = [&](const std::string& events) {
    const auto lines = std::count(events.begin(), events.end(), '\n') + 4;
    return MemoryModel::Parse(head + events + ". " + std::to_string(lines) + "\n", "m").status();
  };
  CHECK(parse("# 0\na 0\nf 1\n").ok());
  CHECK(parse("# 0\na 0\nf 1\nf 2\n").message().find("released twice") != std::string::npos);
  CHECK_FALSE(parse("# 0\na 0\nf 2\n").ok());  // a marker
  CHECK_FALSE(parse("# 0\na 0\nf 9\n").ok());  // before the first event
  CHECK_FALSE(parse("# 0\na 1\n").ok());       // no such rule
  CHECK_FALSE(parse("# 0\na 0\nc 1\n").ok());  // completed before released
  CHECK(parse("# 0\na 0\np 1\nc 2\n").ok());
  CHECK_FALSE(parse("# 0\na 0 -1 -1 1\nf 1 -1 -1 2\n").ok());  // where it was not requested
  CHECK_FALSE(parse("# 0\na 0 -1 -1 7\n").ok());               // a batch that is not there
}

}  // namespace
}  // namespace memmodel
