// Does the allocator simulator give the answers of the real one? Replays every
// recorded stream of a folder (NAME.trace.gz with NAME.json beside it) and
// compares each address, each segment event, every recorded statistic, retries,
// OOMs and the final segments with their blocks.
//
//   simulator_agreement FOLDER [NAME-PART]      exit code 1 on any difference
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/recorded_run.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: simulator_agreement FOLDER [NAME-PART]\n");
    return 2;
  }
  const std::string part = argc > 2 ? argv[2] : "";
  int total = 0;
  int agreeing = 0;
  long long requests = 0;
  for (const std::string& stem : memmodel::bench::RecordedRuns(argv[1])) {
    if (stem.find(part) == std::string::npos) continue;
    ++total;
    const std::vector<std::string> differences = memmodel::bench::Compare(stem, &requests);
    agreeing += differences.empty() ? 1 : 0;
    for (const std::string& difference : differences) {
      std::printf("%s: %s\n", std::filesystem::path(stem).filename().c_str(), difference.c_str());
    }
  }
  std::printf("%d of %d streams reproduced, %lld requests\n", agreeing, total, requests);
  return total > 0 && agreeing == total ? 0 : 1;
}
