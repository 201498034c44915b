#include "src/calibrate/side_by_side.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "src/child/child.h"

namespace memmodel {
namespace {

// Every `workers`th of `all`, so that each child gets a like share of slow ones.
std::vector<std::string> ShareOf(const std::vector<std::string>& all, std::size_t worker,
                                 std::size_t workers) {
  std::vector<std::string> share;
  for (std::size_t i = worker; i < all.size(); i += workers) share.push_back(all[i]);
  return share;
}

Result<CalibrationAnswer> Ask(const ChildOptions& child, DeviceKind device,
                              const Questions& questions, const std::string& doing) {
  const std::string request =
      FormatCalibrationRequest(device, false, questions.plans, questions.operators) + "\n";
  Result<std::string> line = Child::AskOnce(child, request, doing);
  if (!line.ok()) return line.status();
  return ParseCalibrationAnswer(*line, questions.plans.size(), questions.operators.size());
}

}  // namespace

Result<CalibrationAnswer> AskSideBySide(const ChildOptions& child, DeviceKind device,
                                        const Questions& questions, int parallel,
                                        std::size_t least_share, const std::string& doing) {
  CalibrationAnswer answer;
  answer.plans.resize(questions.plans.size());
  answer.operators.resize(questions.operators.size());
  const auto workers =
      std::clamp<std::size_t>((answer.plans.size() + answer.operators.size()) / least_share, 1,
                              static_cast<std::size_t>(std::max(1, parallel)));
  std::vector<Result<CalibrationAnswer>> shares(workers, Status::Internal("not asked"));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers; ++i) {
    threads.emplace_back([&, i] {
      const Questions share{ShareOf(questions.plans, i, workers),
                            ShareOf(questions.operators, i, workers)};
      shares[i] = Ask(child, device, share, doing);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < workers; ++i) {
    if (!shares[i].ok()) return shares[i].status();
    for (std::size_t k = 0; k < shares[i]->plans.size(); ++k) {
      answer.plans[k * workers + i] = shares[i]->plans[k];
    }
    for (std::size_t k = 0; k < shares[i]->operators.size(); ++k) {
      answer.operators[k * workers + i] = std::move(shares[i]->operators[k]);
    }
  }
  return answer;
}

}  // namespace memmodel
