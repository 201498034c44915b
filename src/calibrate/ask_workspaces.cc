#include "src/calibrate/ask_workspaces.h"

#include <utility>

#include "src/calibrate/side_by_side.h"

namespace memmodel {
namespace {

// A child takes as long to start as cuDNN does for a few hundred answers.
constexpr std::size_t kLeastShare = 256;

}  // namespace

Result<WorkspaceAnswers> AskWorkspaces(const ChildOptions& child, DeviceKind device,
                                       const std::vector<std::string>& keys, int parallel) {
  WorkspaceAnswers workspaces;
  if (keys.empty()) return workspaces;
  Questions questions;
  for (const std::string& key : keys) {
    (key.starts_with("aten::") ? questions.operators : questions.plans).push_back(key);
  }
  Result<CalibrationAnswer> answer =
      AskSideBySide(child, device, questions, parallel, kLeastShare, "asking for workspaces");
  if (!answer.ok()) return answer.status();
  for (std::size_t i = 0; i < questions.plans.size(); ++i) {
    const Bytes bytes = answer->plans[i].first;
    if (bytes >= 0) workspaces.emplace(std::move(questions.plans[i]), std::vector<Bytes>{bytes});
  }
  for (std::size_t i = 0; i < questions.operators.size(); ++i) {
    auto& bytes = answer->operators[i];
    if (bytes) workspaces.emplace(std::move(questions.operators[i]), *std::move(bytes));
  }
  return workspaces;
}

}  // namespace memmodel
