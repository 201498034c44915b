#include "src/calibrate/ask_plans.h"

#include <algorithm>
#include <thread>

#include "src/calibrate/figures.h"
#include "src/child/child.h"

namespace memmodel {
namespace {

// A child takes as long to start as cuDNN does for a few hundred answers.
constexpr std::size_t kLeastShare = 256;

Result<CalibrationAnswer> AskShare(const ChildOptions& child, DeviceKind device,
                                   const std::vector<std::string>& keys) {
  const std::string request = FormatCalibrationRequest(device, false, keys) + "\n";
  Result<std::string> line = Child::AskOnce(child, request, "asking cuDNN for plans");
  if (!line.ok()) return line.status();
  return ParseCalibrationAnswer(*line, keys.size());
}

}  // namespace

Result<std::map<std::string, Bytes, std::less<>>> AskWorkspaces(
    const ChildOptions& child, DeviceKind device, const std::vector<std::string>& keys,
    int parallel) {
  std::map<std::string, Bytes, std::less<>> workspaces;
  if (keys.empty()) return workspaces;
  const auto workers = std::clamp<std::size_t>(keys.size() / kLeastShare, 1,
                                               static_cast<std::size_t>(std::max(1, parallel)));
  // Dealt out in turn, so that each gets a like share of slow ones.
  std::vector<std::vector<std::string>> shares(workers);
  for (std::size_t i = 0; i < keys.size(); ++i) shares[i % workers].push_back(keys[i]);
  std::vector<Result<CalibrationAnswer>> answers(workers, Status::Internal("not asked"));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers; ++i) {
    threads.emplace_back([&, i] { answers[i] = AskShare(child, device, shares[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < workers; ++i) {
    if (!answers[i].ok()) return answers[i].status();
    for (std::size_t k = 0; k < shares[i].size(); ++k) {
      const Bytes bytes = answers[i]->plans[k].first;
      if (bytes >= 0) workspaces.emplace(std::move(shares[i][k]), bytes);
    }
  }
  return workspaces;
}

}  // namespace memmodel
