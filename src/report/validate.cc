#include "src/report/validate.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace memmodel {
namespace {

using Json = nlohmann::ordered_json;

std::string Percent(double share) {
  char text[32];
  const double percent = 100 * share;
  std::snprintf(text, sizeof text, percent != 0 && std::fabs(percent) < 0.001 ? "%.0e%%" : "%.3f%%",
                percent);
  return text;
}

std::string Describe(const MeasuredRun& run) {
  return run.model + " b=" + std::to_string(run.batch) + " " + FormatOptimizer(run.job.optimizer) +
         " " + std::string(Name(run.job.precision));
}

}  // namespace

std::string FormatValidation(const std::vector<MeasuredRun>& runs, const Validation& validation,
                             std::size_t worst) {
  char line[256];
  std::snprintf(line, sizeof line, "%-14s %-28s %5s %6s %9s %9s %9s\n", "quantity", "group", "runs",
                "equal", "median", "95 %", "largest");
  std::string out = line;
  for (const ErrorRow& row : validation.table) {
    std::snprintf(line, sizeof line, "%-14s %-28.28s %5zu %6zu %9s %9s %9s\n",
                  std::string(Name(row.quantity)).c_str(), row.group.c_str(), row.runs, row.equal,
                  Percent(row.median).c_str(), Percent(row.p95).c_str(),
                  Percent(row.largest).c_str());
    out += line;
  }
  std::vector<Comparison> sorted = validation.comparisons;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Comparison& a, const Comparison& b) {
    return std::fabs(a.Error()) > std::fabs(b.Error());
  });
  if (worst > 0 && !sorted.empty()) out += "\nworst cases\n";
  for (std::size_t i = 0; i < std::min(worst, sorted.size()); ++i) {
    const Comparison& c = sorted[i];
    if (c.predicted == c.measured) break;
    std::snprintf(line, sizeof line, "  %s %s: measured %" PRId64 ", predicted %" PRId64 " (%s)\n",
                  Describe(runs[c.run]).c_str(), std::string(Name(c.quantity)).c_str(), c.measured,
                  c.predicted, Percent(c.Error()).c_str());
    out += line;
  }
  if (validation.skipped > 0) {
    out.append("\n").append(std::to_string(validation.skipped)).append(" runs left out\n");
  }
  if (!validation.failed.empty()) {
    out += "\nwithout a prediction: " + std::to_string(validation.failed.size()) + "\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(10, validation.failed.size()); ++i) {
      const auto& [run, why] = validation.failed[i];
      out += "  " + Describe(runs[run]) + ": " + why + "\n";
    }
  }
  return out;
}

std::string ValidationToJson(const std::vector<MeasuredRun>& runs, const Validation& validation) {
  Json json = {{"schema_version", 1}, {"skipped", validation.skipped}, {"table", Json::array()}};
  for (const ErrorRow& row : validation.table) {
    json["table"].push_back({{"quantity", Name(row.quantity)},
                             {"group", row.group},
                             {"runs", row.runs},
                             {"equal", row.equal},
                             {"median_error", row.median},
                             {"p95_error", row.p95},
                             {"largest_error", row.largest}});
  }
  json["comparisons"] = Json::array();
  for (const Comparison& c : validation.comparisons) {
    const MeasuredRun& run = runs[c.run];
    json["comparisons"].push_back({{"line", run.line},
                                   {"model", run.model},
                                   {"batch", run.batch},
                                   {"optimizer", FormatOptimizer(run.job.optimizer)},
                                   {"precision", Name(run.job.precision)},
                                   {"quantity", Name(c.quantity)},
                                   {"measured", c.measured},
                                   {"predicted", c.predicted},
                                   {"error", c.Error()}});
  }
  json["failed"] = Json::array();
  for (const auto& [run, why] : validation.failed) {
    json["failed"].push_back({{"line", runs[run].line}, {"model", runs[run].model}, {"why", why}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace memmodel
