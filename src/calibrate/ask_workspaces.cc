#include "src/calibrate/ask_workspaces.h"

#include <algorithm>
#include <thread>

#include "src/calibrate/figures.h"
#include "src/child/child.h"

namespace memmodel {
namespace {

// A child takes as long to start as cuDNN does for a few hundred answers.
constexpr std::size_t kLeastShare = 256;

struct Share {
  std::vector<std::string> plans, operators;
  Result<CalibrationAnswer> answer = Status::Internal("not asked");

  void Ask(const ChildOptions& child, DeviceKind device) {
    const std::string request = FormatCalibrationRequest(device, false, plans, operators) + "\n";
    Result<std::string> line = Child::AskOnce(child, request, "asking for workspaces");
    answer = line.ok() ? ParseCalibrationAnswer(*line, plans.size(), operators.size())
                       : Result<CalibrationAnswer>(line.status());
  }
};

}  // namespace

Result<WorkspaceAnswers> AskWorkspaces(const ChildOptions& child, DeviceKind device,
                                       const std::vector<std::string>& keys, int parallel) {
  WorkspaceAnswers workspaces;
  if (keys.empty()) return workspaces;
  const auto workers = std::clamp<std::size_t>(keys.size() / kLeastShare, 1,
                                               static_cast<std::size_t>(std::max(1, parallel)));
  // Dealt out in turn, so that each gets a like share of slow ones.
  std::vector<Share> shares(workers);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Share& share = shares[i % workers];
    (keys[i].starts_with("aten::") ? share.operators : share.plans).push_back(keys[i]);
  }
  std::vector<std::thread> threads;
  for (Share& share : shares) threads.emplace_back([&] { share.Ask(child, device); });
  for (std::thread& thread : threads) thread.join();
  for (Share& share : shares) {
    if (!share.answer.ok()) return share.answer.status();
    for (std::size_t k = 0; k < share.plans.size(); ++k) {
      const Bytes bytes = share.answer->plans[k].first;
      if (bytes >= 0) workspaces.emplace(std::move(share.plans[k]), std::vector<Bytes>{bytes});
    }
    for (std::size_t k = 0; k < share.operators.size(); ++k) {
      auto& bytes = share.answer->operators[k];
      if (bytes) workspaces.emplace(std::move(share.operators[k]), *std::move(bytes));
    }
  }
  return workspaces;
}

}  // namespace memmodel
