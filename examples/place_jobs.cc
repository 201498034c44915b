// A scheduler's question, with the C++ core: on which of several GPUs does a job
// fit, and with which batch?
//
//   place_jobs MODEL TOTAL:USED...          sizes as 24G, 80GiB, 25769803776
#include <cstdio>
#include <memmodel/bytes.h>
#include <memmodel/memory_model.h>
#include <string>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: place_jobs MODEL TOTAL:USED...\n");
    return 2;
  }
  const auto model = memmodel::MemoryModel::Read(argv[1]);
  if (!model.ok()) {
    std::fprintf(stderr, "place_jobs: %s\n", model.status().message().c_str());
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    const std::string card = argv[i];
    const std::size_t colon = card.find(':');
    const auto total = memmodel::ParseBytes(card.substr(0, colon));
    const auto used = memmodel::ParseBytes(colon == std::string::npos ? "0" : card.substr(colon + 1));
    if (!total.ok() || !used.ok()) {
      std::fprintf(stderr, "place_jobs: '%s' is not TOTAL:USED\n", argv[i]);
      return 2;
    }
    memmodel::GpuBudget budget;
    budget.total_bytes = *total;
    budget.used_bytes = *used;
    const auto largest = model->Solve(budget);
    if (!largest.ok()) {
      std::fprintf(stderr, "place_jobs: %s\n", largest.status().message().c_str());
      return 2;
    }
    std::printf("%s: batch %lld%s\n", argv[i], static_cast<long long>(largest->batch),
                largest->memory ? (", " + memmodel::FormatBytes(largest->memory->reserved) +
                                   " reserved").c_str()
                                : "");
  }
  return 0;
}
