// The C interface on a model of the network in tests/model/sample_traces.h.
//
// By hand, at batch b >= 8: the peak stands in the second step, when the gradient
// of conv1's output is made: weights 6144, gradients 6144, input 1024 b, outputs
// 2048 b and 512 b, loss 512 (rounded), that gradient 2048 b: 12800 + 5632 b.
#include "memmodel/c.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "memmodel/memory_model.h"
#include "tests/model/sample_traces.h"

namespace memmodel {
namespace {

constexpr std::int64_t kContext = 500 * kMiB;

std::int64_t AllocatedByHand(std::int64_t b) { return 12800 + 5632 * b; }

std::string Bytes_() {
  ModelOptions options;
  options.context_bytes = kContext;
  const auto model = MemoryModel::Fit(test::Samples({8, 16, 32, 64}), options);
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return model->Format();
}

struct Model {
  Model() {
    const std::string data = Bytes_();
    char* error = nullptr;
    handle = memmodel_model_parse(data.data(), data.size(), &error);
    REQUIRE_MESSAGE(handle != nullptr, error);
  }
  ~Model() { memmodel_model_close(handle); }
  Model(const Model&) = delete;
  memmodel_model_t* handle;
};

// The message of the call that `f` makes, which must fail with `code`.
template <typename F>
std::string Error(memmodel_status_t code, F f) {
  char* error = nullptr;
  CHECK(f(&error) == code);
  REQUIRE(error != nullptr);
  const std::string message = error;
  memmodel_free(error);
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

TEST_CASE("versions") {
  CHECK(std::string(memmodel_version()) == MEMMODEL_VERSION);
  CHECK(memmodel_c_api_version() == MEMMODEL_C_API_VERSION);
}

TEST_CASE("peaks are the hand-made ones") {
  const Model m;
  memmodel_memory_t memory = MEMMODEL_MEMORY_INIT;
  for (const std::int64_t batch : {8, 16, 20, 32, 64}) {
    char* error = nullptr;
    REQUIRE(memmodel_model_peak(m.handle, batch, &memory, &error) == MEMMODEL_OK);
    CHECK(error == nullptr);
    CHECK(memory.batch == batch);
    CHECK(memory.allocated_bytes == AllocatedByHand(batch));
    CHECK(memory.reserved_bytes == 2 * kMiB);
    CHECK(memory.device_bytes == 2 * kMiB + kContext);
    CHECK(memory.allocated_low_bytes == memory.allocated_bytes);
    CHECK(memory.allocated_high_bytes == memory.allocated_bytes);
    CHECK(memory.basis == (batch == 20 ? MEMMODEL_BASIS_EXACT : MEMMODEL_BASIS_TRACED));
  }
}

TEST_CASE("fits: reserved and context against target * total - used") {
  const Model m;
  memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
  memmodel_fit_t fit = MEMMODEL_FIT_INIT;
  gpu.total_bytes = 1000 * kMiB;
  gpu.target = 0.75;
  gpu.used_bytes = 248 * kMiB;  // 502 MiB are left: exactly what is needed
  REQUIRE(memmodel_model_fits(m.handle, 16, &gpu, &fit, nullptr) == MEMMODEL_OK);
  CHECK(fit.fits == 1);
  CHECK(fit.certain == 1);
  CHECK(fit.context_known == 1);
  CHECK(fit.needed_bytes == 502 * kMiB);
  CHECK(fit.budget_bytes == 502 * kMiB);
  CHECK(fit.low_bytes == 502 * kMiB);
  CHECK(fit.high_bytes == 502 * kMiB);
  ++gpu.used_bytes;
  REQUIRE(memmodel_model_fits(m.handle, 16, &gpu, &fit, nullptr) == MEMMODEL_OK);
  CHECK(fit.fits == 0);
  gpu.context_bytes = 0;  // the caller's own figure
  REQUIRE(memmodel_model_fits(m.handle, 16, &gpu, &fit, nullptr) == MEMMODEL_OK);
  CHECK(fit.fits == 1);
  CHECK(fit.needed_bytes == 2 * kMiB);
}

TEST_CASE("the largest batch is the last that fits") {
  const Model m;
  memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
  memmodel_limit_t limit = MEMMODEL_LIMIT_INIT;
  gpu.total_bytes = 1000 * kMiB;
  gpu.target = 0.75;
  gpu.used_bytes = 248 * kMiB;
  REQUIRE(memmodel_model_largest_batch(m.handle, &gpu, &limit, nullptr) == MEMMODEL_OK);
  CHECK(limit.budget_bytes == 502 * kMiB);
  CHECK(limit.bounded == 1);
  memmodel_fit_t fit = MEMMODEL_FIT_INIT;
  REQUIRE(memmodel_model_fits(m.handle, limit.batch, &gpu, &fit, nullptr) == MEMMODEL_OK);
  CHECK(fit.fits == 1);
  REQUIRE(memmodel_model_fits(m.handle, limit.batch + 1, &gpu, &fit, nullptr) == MEMMODEL_OK);
  CHECK(fit.fits == 0);
  gpu.used_bytes = 300 * kMiB;
  REQUIRE(memmodel_model_largest_batch(m.handle, &gpu, &limit, nullptr) == MEMMODEL_OK);
  CHECK(limit.batch == 0);
}

TEST_CASE("explain names the layers and the moment of the peak") {
  const Model m;
  char* text = memmodel_model_explain(m.handle, 16, nullptr);
  REQUIRE(text != nullptr);
  const std::string json = text;
  memmodel_free(text);
  CHECK(json.find("\"schema_version\":1") != std::string::npos);
  CHECK(json.find("\"allocated_bytes\":" + std::to_string(AllocatedByHand(16))) != std::string::npos);
  CHECK(json.find("\"path\":\"conv1\"") != std::string::npos);
  CHECK(json.find("\"operator\":\"AddmmBackward0\"") != std::string::npos);
}

TEST_CASE("wrong calls end in a message") {
  const Model m;
  memmodel_memory_t memory = MEMMODEL_MEMORY_INIT;
  memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
  memmodel_limit_t limit = MEMMODEL_LIMIT_INIT;
  memmodel_fit_t fit = MEMMODEL_FIT_INIT;
  const auto kInvalid = MEMMODEL_INVALID_ARGUMENT;
  for (const std::int64_t batch : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    Error(kInvalid, [&](char** e) { return memmodel_model_peak(m.handle, batch, &memory, e); });
  }
  CHECK(memory.reserved_bytes == 0);
  Error(kInvalid, [&](char** e) { return memmodel_model_peak(nullptr, 1, &memory, e); });
  Error(kInvalid, [&](char** e) { return memmodel_model_peak(m.handle, 1, nullptr, e); });
  memory.struct_size = 0;
  Error(kInvalid, [&](char** e) { return memmodel_model_peak(m.handle, 1, &memory, e); });
  Error(kInvalid, [&](char** e) { return memmodel_model_largest_batch(m.handle, &gpu, &limit, e); });
  gpu.total_bytes = kGiB;
  for (const double target : {0.0, -1.0, 1.5, std::stod("nan")}) {
    gpu.target = target;
    Error(kInvalid, [&](char** e) { return memmodel_model_fits(m.handle, 1, &gpu, &fit, e); });
    Error(kInvalid, [&](char** e) { return memmodel_model_largest_batch(m.handle, &gpu, &limit, e); });
  }
  CHECK(memmodel_model_explain(m.handle, 0, nullptr) == nullptr);
  memmodel_free(nullptr);
  memmodel_model_close(nullptr);
}

TEST_CASE("a message that is already there is kept") {
  char first[] = "first";
  char* error = first;
  CHECK(memmodel_model_open("/no/such/file", &error) == nullptr);
  CHECK(error == first);
  CHECK(memmodel_model_open(nullptr, nullptr) == nullptr);
  CHECK(memmodel_model_parse(nullptr, 0, nullptr) == nullptr);
}

TEST_CASE("damaged models are refused") {
  const std::string data = Bytes_();
  std::vector<std::string> bad = {"", "x", "{}", std::string(1000, '\0'),
                                  data.substr(0, data.size() / 2), data.substr(data.size() / 2)};
  for (const std::string& text : bad) {
    char* error = nullptr;
    CHECK(memmodel_model_parse(text.data(), text.size(), &error) == nullptr);
    CHECK(error != nullptr);
    memmodel_free(error);
  }
  // Whatever a flipped byte makes of it, it is a model or an error.
  for (std::size_t i = 0; i < data.size(); i += 7) {
    std::string flipped = data;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x41);
    memmodel_model_t* model = memmodel_model_parse(flipped.data(), flipped.size(), nullptr);
    memmodel_model_close(model);
  }
}

TEST_CASE("eight threads share a handle") {
  const Model m;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      memmodel_memory_t memory = MEMMODEL_MEMORY_INIT;
      memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
      memmodel_limit_t limit = MEMMODEL_LIMIT_INIT;
      gpu.total_bytes = kGiB;
      for (int i = 0; i < 200; ++i) {
        const std::int64_t batch = 8 + (i + t) % 56;
        char* error = nullptr;
        if (memmodel_model_peak(m.handle, batch, &memory, &error) != MEMMODEL_OK ||
            memory.allocated_bytes != AllocatedByHand(batch)) {
          ++wrong;
        }
        if (memmodel_model_peak(m.handle, 0, &memory, &error) == MEMMODEL_OK) ++wrong;
        memmodel_free(error);
        if (i % 20 == 0) {
          if (memmodel_model_largest_batch(m.handle, &gpu, &limit, nullptr) != MEMMODEL_OK) ++wrong;
          char* text = memmodel_model_explain(m.handle, batch, nullptr);
          if (text == nullptr) ++wrong;
          memmodel_free(text);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// Also leaves the file that install_test reads.
TEST_CASE("a model is opened from its file") {
  const std::string path = std::string(MEMMODEL_BINARY_DIR) + "/tests/sample.model";
  std::ofstream(path, std::ios::binary) << Bytes_();
  char* error = nullptr;
  memmodel_model_t* model = memmodel_model_open(path.c_str(), &error);
  REQUIRE_MESSAGE(model != nullptr, error);
  memmodel_model_close(model);
}

}  // namespace
}  // namespace memmodel
