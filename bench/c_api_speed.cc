// Queries a second through the C interface, and the time of one, on a model file.
//
//   c_api_speed MODEL [SECONDS]
#include <ctime>
#include <initializer_list>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "memmodel/c.h"

namespace {

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: c_api_speed MODEL [SECONDS]\n");
    return 2;
  }
  char* error = nullptr;
  memmodel_model_t* model = memmodel_model_open(argv[1], &error);
  if (model == nullptr) {
    std::fprintf(stderr, "c_api_speed: %s\n", error);
    memmodel_free(error);
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2.0;
  memmodel_memory_t memory = MEMMODEL_MEMORY_INIT;
  memmodel_gpu_t gpu = MEMMODEL_GPU_INIT;
  memmodel_fit_t fit = MEMMODEL_FIT_INIT;
  gpu.total_bytes = std::int64_t{24} << 30;
  long long sum = 0;
  for (const bool fits : {false, true}) {
    const double start = ProcessorSeconds();
    long long queries = 0;
    double took = 0;
    for (; took < seconds; took = ProcessorSeconds() - start) {
      for (int i = 0; i < 1000; ++i, ++queries) {
        const std::int64_t batch = 1 + queries % 256;
        if (fits) {
          memmodel_model_fits(model, batch, &gpu, &fit, nullptr);
          sum += fit.needed_bytes;
        } else {
          memmodel_model_peak(model, batch, &memory, nullptr);
          sum += memory.reserved_bytes;
        }
      }
    }
    std::printf("%s: %.2f million queries a second, %.0f ns each\n", fits ? "fits" : "peak",
                static_cast<double>(queries) / took / 1e6, 1e9 * took / static_cast<double>(queries));
  }
  std::printf("checksum %lld\n", sum);
  memmodel_model_close(model);
  return 0;
}
