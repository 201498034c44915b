// How many requests and releases the allocator simulator answers in a second of
// processor time, on recorded streams replayed over and over by one thread.
//
//   simulator_speed FOLDER [SECONDS]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <algorithm>
#include <vector>

#include "bench/recorded_run.h"

namespace {

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: simulator_speed FOLDER [SECONDS]\n");
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5.0;
  struct Work {
    memmodel::RequestStream stream;
    memmodel::ReplayOptions options;
  };
  std::vector<Work> works;
  std::size_t per_round = 0;
  for (const std::string& stem : memmodel::bench::RecordedRuns(argv[1])) {
    std::ifstream file(stem + ".json");
    const nlohmann::json run = nlohmann::json::parse(file, nullptr, false);
    const auto trace = memmodel::ReadTrace(stem + ".trace.gz");
    if (run.is_discarded() || !trace.ok()) continue;
    auto options = memmodel::bench::OptionsOf(run);
    auto stream = memmodel::CompileRequests(*trace);
    if (!options.ok() || !stream.ok()) continue;
    per_round += stream->requests.size();
    works.push_back({std::move(*stream), *options});
  }
  if (works.empty()) {
    std::fprintf(stderr, "no recorded streams in %s\n", argv[1]);
    return 2;
  }
  // One pass to warm up, then whole passes until the time is used.
  std::size_t requests = 0;
  memmodel::Bytes sum = 0;
  double elapsed = 0;
  double best = 1e9;
  for (int pass = 0; pass == 0 || elapsed < seconds; ++pass) {
    const double start = ProcessorSeconds();
    for (const Work& work : works) sum += memmodel::ReplayRequests(work.stream, work.options).reserved;
    const double took = ProcessorSeconds() - start;
    if (pass == 0) continue;
    elapsed += took;
    best = std::min(best, took);
    requests += per_round;
  }
  std::printf("%zu streams, %zu requests a pass (checksum %lld)\n", works.size(), per_round,
              static_cast<long long>(sum));
  std::printf("mean %.1f, best pass %.1f million requests a second\n",
              static_cast<double>(requests) / elapsed / 1e6,
              static_cast<double>(per_round) / best / 1e6);
  return 0;
}
