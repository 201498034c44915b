#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "memmodel/validate.h"

namespace memmodel {
namespace {

// The smallest error that at least `share` of the errors do not exceed.
double Quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(std::max<std::size_t>(rank, 1), sorted.size()) - 1];
}

std::string GroupOf(const MeasuredRun& run) {
  std::string group = FormatOptimizer(run.job.optimizer);
  group.append(" ").append(Name(run.job.precision));
  if (run.job.channels_last) group.append(" channels_last");
  if (run.job.cudnn_benchmark) group.append(" benchmark");
  if (run.job.accumulate > 1) group.append(" accumulate");
  return run.job.mode == Mode::kInfer ? "infer " + std::string(Name(run.job.precision)) : group;
}

}  // namespace

std::string_view Name(Quantity quantity) {
  constexpr std::array<std::string_view, 4> kNames = {"allocated", "reserved", "device",
                                                      "largest_batch"};
  return kNames[static_cast<std::size_t>(quantity)];
}

double Comparison::Error() const {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

std::vector<ErrorRow> MakeErrorTable(const std::vector<MeasuredRun>& runs,
                                     const std::vector<Comparison>& comparisons) {
  std::set<std::size_t> reserved_equal;
  for (const Comparison& c : comparisons) {
    if (c.quantity == Quantity::kReserved && c.predicted == c.measured)
      reserved_equal.insert(c.run);
  }
  std::vector<ErrorRow> table;
  for (const Quantity quantity :
       {Quantity::kAllocated, Quantity::kReserved, Quantity::kDevice, Quantity::kLargestBatch}) {
    std::map<std::string, std::vector<double>> groups;
    std::map<std::string, std::size_t> equal;
    for (const Comparison& c : comparisons) {
      if (c.quantity != quantity) continue;
      std::vector<std::string> of = {"", GroupOf(runs[c.run])};
      if (quantity == Quantity::kDevice && reserved_equal.contains(c.run)) {
        of.emplace_back("reserved is equal");
      }
      for (const std::string& group : of) {
        groups[group].push_back(std::fabs(c.Error()));
        equal[group] += c.predicted == c.measured;
      }
    }
    for (auto& [group, errors] : groups) {
      std::sort(errors.begin(), errors.end());
      table.push_back({quantity, group.empty() ? "all" : group, errors.size(), equal[group],
                       Quantile(errors, 0.5), Quantile(errors, 0.95), errors.back()});
    }
  }
  return table;
}

}  // namespace memmodel
