// How well a model fitted to a few traces answers for batches that were traced but
// not given to it, and how long an answer takes.
//
//   model_held_out FIT.trace... -- OTHER.trace...
//
// Allocated and reserved of the other traces come from the traces themselves:
// their requests through the same simulator.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "memmodel/allocator_replay.h"
#include "memmodel/memory_model.h"

namespace memmodel {
namespace {

std::int64_t BatchOf(const Trace& trace) {
  for (const std::string& text : trace.texts) {
    if (text.starts_with(marker::kStepPrefix)) {
      return std::atoll(text.c_str() + marker::kStepPrefix.size());
    }
  }
  return 0;
}

double NanosecondsPerQuery(const MemoryModel& model) {
  constexpr int kQueries = 1'000'000;
  const auto start = std::chrono::steady_clock::now();
  Bytes sum = 0;
  for (int i = 0; i < kQueries; ++i) sum += model.RequestedPeak(1 + i % 1000);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return sum > 0 ? spent.count() / kQueries : 0;
}

double NanosecondsPerLookUp(const MemoryModel& model) {
  constexpr int kQueries = 1'000'000;
  const auto start = std::chrono::steady_clock::now();
  Bytes sum = 0;
  for (int i = 0; i < kQueries; ++i) sum += model.At(1 + i % 256)->reserved;
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return sum > 0 ? spent.count() / kQueries : 0;
}

int Run(int argc, char** argv) {
  std::vector<Trace> fit, others;
  bool second = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      second = true;
      continue;
    }
    Result<Trace> trace = ReadTrace(argv[i]);
    if (!trace.ok()) {
      std::fprintf(stderr, "%s\n", trace.status().message().c_str());
      return 2;
    }
    (second ? others : fit).push_back(*std::move(trace));
  }
  const auto start = std::chrono::steady_clock::now();
  const Result<MemoryModel> model = MemoryModel::Fit(fit);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().message().c_str());
    return 2;
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  std::vector<double> allocated, reserved;
  int equal = 0, equal_reserved = 0, inside = 0, exact_wrong = 0;
  for (const Trace& trace : others) {
    const Result<ReplayResult> replay = Replay(trace, ReplayOptions(), nullptr);
    if (!replay.ok()) continue;
    const Result<BatchMemory> memory = model->At(BatchOf(trace));
    if (!memory.ok()) continue;
    const Bytes truth = replay->statistics.allocated_bytes.all.peak;
    const Bytes truth_reserved = replay->statistics.reserved_bytes.all.peak;
    const auto error = [](Bytes predicted, Bytes measured) {
      return std::abs(static_cast<double>(predicted) / static_cast<double>(measured) - 1);
    };
    allocated.push_back(error(memory->allocated, truth));
    reserved.push_back(error(memory->reserved, truth_reserved));
    equal += memory->allocated == truth;
    equal_reserved += memory->reserved == truth_reserved;
    inside += memory->allocated_range.low <= truth && truth <= memory->allocated_range.high;
    exact_wrong += memory->basis == ModelBasis::kExact && memory->allocated != truth;
    if (memory->allocated != truth && std::getenv("SHOW") != nullptr) {
      std::printf("  b=%" PRId64 " %s: %" PRId64 " in place of %" PRId64 "\n", memory->batch,
                  std::string(BasisName(memory->basis)).c_str(), memory->allocated, truth);
    }
  }
  std::sort(allocated.begin(), allocated.end());
  std::sort(reserved.begin(), reserved.end());
  if (allocated.empty()) return 2;
  std::printf(
      "held out %zu: allocated equal %d, median %.4f%%, most %.3f%%, in range %d, "
      "exact but wrong %d; reserved equal %d, median %.3f%%, most %.2f%%; fit %.0f ms, "
      "file %zu bytes, closed form %.0f ns, look-up %.0f ns\n",
      allocated.size(), equal, 100 * allocated[allocated.size() / 2], 100 * allocated.back(),
      inside, exact_wrong, equal_reserved, 100 * reserved[reserved.size() / 2],
      100 * reserved.back(), spent.count(), model->Format().size(), NanosecondsPerQuery(*model),
      NanosecondsPerLookUp(*model));
  return 0;
}

}  // namespace
}  // namespace memmodel

int main(int argc, char** argv) { return memmodel::Run(argc, argv); }
