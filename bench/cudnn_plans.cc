// Convolution plans of the stand-ins beside those of a file (`KEY BYTES ENGINE`,
// docs/cudnn.md), measured on the GPU of the device file: how many workspaces are
// equal after rounding to 512 bytes, and how many within 1 MiB, by engine.
//   MEMMODEL_VGPU_DEVICE=... MEMMODEL_VGPU_CUDNN=... MEMMODEL_VGPU_CUBLASLT=... cudnn_plans FILE
//   [N]
// N: every N-th line. MEMMODEL_VGPU_CUDNN_TABLE=0 leaves the calibrated table out.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "tests/cudnn/convolution_plan.h"

using namespace memmodel::cudnn_plans;  // NOLINT(google-build-using-namespace)

namespace {

struct Tally {
  int plans = 0, equal = 0, near = 0, other_engine = 0;

  void Add(const Plan& measured, const Plan& answer) {
    const auto rounded = [](std::int64_t bytes) { return (bytes + 511) / 512; };
    const std::int64_t difference = std::abs(measured.bytes - answer.bytes);
    ++plans;
    if (rounded(measured.bytes) == rounded(answer.bytes)) ++equal;
    if (answer.bytes >= 0 && difference <= (std::int64_t{1} << 20)) ++near;
    if (measured.engine != answer.engine) ++other_engine;
  }
  void Print(const std::string& name) const {
    std::printf("%-12s %7d plans  equal %6.2f %%  within 1 MiB %6.2f %%  another engine %6.2f %%\n",
                name.c_str(), plans, 100.0 * equal / plans, 100.0 * near / plans,
                100.0 * other_engine / plans);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: cudnn_plans FILE [N]\n");
    return 2;
  }
  const std::string error = OpenStandIns(MEMMODEL_VGPU_DIR);
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  const std::size_t every = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1;
  std::map<std::pair<std::string, std::int64_t>, Tally> engines;
  Tally all;
  std::size_t line = 0;
  for (const Plan& measured : ReadPlans(argv[1])) {
    if (line++ % every != 0) continue;
    const Plan answer = Ask(measured.key);
    engines[{measured.key.substr(0, measured.key.find(' ')), measured.engine}].Add(measured,
                                                                                   answer);
    all.Add(measured, answer);
  }
  if (all.plans == 0) {
    std::fprintf(stderr, "%s has no plans\n", argv[1]);
    return 1;
  }
  all.Print("all");
  for (const auto& [engine, tally] : engines) {
    tally.Print(engine.first + " " + std::to_string(engine.second));
  }
  return 0;
}
