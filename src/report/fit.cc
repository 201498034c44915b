#include "src/report/fit.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/report/text.h"

namespace memmodel {
namespace {

using Json = nlohmann::ordered_json;

[[gnu::format(printf, 2, 3)]] void Append(std::string* out, const char* format, ...) {
  char line[400];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out->append(line);
}

// Powers of two up to the first beyond `last`, and `more`.
std::set<std::int64_t> CurveBatches(std::int64_t last, const std::set<std::int64_t>& more) {
  std::set<std::int64_t> batches = more;
  for (std::int64_t b = 1;; b *= 2) {
    batches.insert(b);
    if (b >= last || b >= MemoryModel::kLargestBatch) return batches;
  }
}

std::set<std::int64_t> PointsBatches(const PointsFit& fit, std::int64_t largest) {
  std::set<std::int64_t> measured;
  for (const MeasuredPoint& p : fit.points) measured.insert(p.batch);
  return CurveBatches(std::max(fit.points.back().batch * 4, largest), measured);
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

std::string BudgetText(const GpuBudget& budget, Bytes bytes) {
  std::string text = Percent(budget.target);
  text.append(" of ").append(FormatBytes(budget.total_bytes));
  if (budget.used_bytes > 0) text.append(" less ").append(FormatBytes(budget.used_bytes));
  return text.append(" is ").append(FormatBytes(bytes));
}

}  // namespace

std::string FormatPointsFit(const PointsFit& fit, const std::optional<GpuBudget>& budget) {
  std::string out;
  std::int64_t largest = 0;
  if (budget) {
    const PointsFit::Largest answer = fit.Solve(*budget);
    largest = answer.batch;
    std::string text = "Largest batch: ";
    text.append(std::to_string(answer.batch)).append(" by the curve, ");
    text.append(std::to_string(answer.safe_batch)).append(" by its upper bound (");
    text.append(BudgetText(*budget, answer.budget_bytes)).append(").");
    out += Wrap("", text);
    out.push_back('\n');
  }
  for (const std::string& sentence : fit.Explain()) out += Wrap("", sentence);
  Append(&out, "\n%9s %12s %12s %12s %12s %9s\n", "batch", "curve", "low", "high", "measured",
         "residual");
  for (const std::int64_t batch : PointsBatches(fit, std::min<std::int64_t>(largest, 1 << 20))) {
    const ByteRange range = fit.RangeAt(batch);
    Append(&out, "%9" PRId64 " %12s %12s %12s", batch, FormatBytes(fit.At(batch)).c_str(),
           FormatBytes(range.low).c_str(), FormatBytes(range.high).c_str());
    for (const MeasuredPoint& p : fit.points) {
      if (p.batch != batch) continue;
      const double residual = static_cast<double>(fit.At(batch)) / static_cast<double>(p.bytes) - 1;
      Append(&out, " %12s %8.2f%%", FormatBytes(p.bytes).c_str(), 100 * residual);
    }
    out.push_back('\n');
  }
  return out;
}

std::string PointsFitToJson(const PointsFit& fit, const std::optional<GpuBudget>& budget) {
  Json json = {{"schema_version", 1},
               {"basis", "points"},
               {"fit",
                {{"constant_bytes", fit.curve.constant},
                 {"bytes_per_sample", fit.curve.slope},
                 {"bend", Name(fit.curve.shape)}}},
               {"largest_residual", fit.largest_residual}};
  if (fit.curve.shape != BendShape::kNone) {
    json["fit"]["bend_at_batch"] = fit.curve.at;
    json["fit"][fit.curve.shape == BendShape::kLate ? "bend_bytes_per_sample" : "bend_bytes"] =
        fit.curve.amount;
  }
  std::int64_t largest = 0;
  if (budget) {
    const PointsFit::Largest answer = fit.Solve(*budget);
    largest = answer.batch;
    json["budget_bytes"] = answer.budget_bytes;
    json["largest_batch"] = answer.batch;
    json["largest_batch_by_upper_bound"] = answer.safe_batch;
  }
  json["points"] = Json::array();
  for (const MeasuredPoint& p : fit.points) {
    json["points"].push_back(
        {{"batch", p.batch},
         {"device_bytes", p.bytes},
         {"tolerance_bytes", p.tolerance},
         {"residual", static_cast<double>(fit.At(p.batch)) / static_cast<double>(p.bytes) - 1}});
  }
  json["curve"] = Json::array();
  for (const std::int64_t batch : PointsBatches(fit, std::min<std::int64_t>(largest, 1 << 20))) {
    const ByteRange range = fit.RangeAt(batch);
    json["curve"].push_back({{"batch", batch},
                             {"device_bytes", fit.At(batch)},
                             {"low_bytes", range.low},
                             {"high_bytes", range.high}});
  }
  json["explanation"] = fit.Explain();
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

void AppendLimit(const GpuBudget& budget, const BatchLimit& limit, std::string* out) {
  std::string text = limit.batch == 0 ? "Not even one sample fits ("
                                      : "Largest batch: " + std::to_string(limit.batch) + " (";
  text.append(BudgetText(budget, limit.budget_bytes)).append(").");
  *out += Wrap("", text);
  out->push_back('\n');
}

void AppendChanges(const MemoryModel& model, std::string* out) {
  const std::vector<OrderChange>& changes = model.order_changes();
  if (changes.empty()) {
    out->append("\nThe requests are the same ones at every traced batch.\n");
    return;
  }
  Append(out, "\nMade at some of the traced batches only (%zu groups of requests):\n",
         changes.size());
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(kShown, changes.size()); ++i) {
    const OrderChange& change = changes[i];
    std::string batches;
    for (const std::int64_t b : change.present) batches.append(" ").append(std::to_string(b));
    Append(out, "  %s of %s, %s\n    %" PRId64 " requests, at most %s, at batch%s\n",
           change.operator_name.empty() ? "(no operator)" : change.operator_name.c_str(),
           change.module_path.empty() ? "the model" : change.module_path.c_str(),
           std::string(PhaseName(change.phase)).c_str(), change.requests,
           FormatBytes(change.largest_bytes).c_str(), batches.c_str());
  }
  if (changes.size() > kShown) Append(out, "  and %zu more\n", changes.size() - kShown);
}

void AppendFitted(const MemoryModel& model, std::string* out) {
  const std::vector<FittedSizes>& fitted = model.fitted_sizes();
  if (fitted.empty()) return;
  std::map<std::string, std::pair<std::int64_t, Bytes>> by_operator;
  for (const FittedSizes& f : fitted) {
    auto& [requests, largest] = by_operator[f.operator_name];
    requests += f.requests;
    largest = std::max(largest, f.largest_bytes);
  }
  out->append("\nOf no exact rule in the batch, fitted between the traced ones:\n");
  for (const auto& [name, sum] : by_operator) {
    Append(out, "  %s: %" PRId64 " requests, at most %s\n",
           name.empty() ? "(no operator)" : name.c_str(), sum.first,
           FormatBytes(sum.second).c_str());
  }
}

std::set<std::int64_t> ModelBatches(const MemoryModel& model, std::int64_t largest) {
  const std::vector<std::int64_t>& traced = model.traced_batches();
  std::set<std::int64_t> more(traced.begin(), traced.end());
  if (largest > 0) more.insert(largest);
  return CurveBatches(std::max(traced.back() * 2, largest), more);
}

Json ToJson(const BatchMemory& memory) {
  Json json = {{"batch", memory.batch},
               {"allocated_bytes", memory.allocated},
               {"reserved_bytes", memory.reserved}};
  if (memory.device) json["device_bytes"] = *memory.device;
  json["requested_peak_bytes"] = memory.requested_peak;
  json["allocated_low_bytes"] = memory.allocated_range.low;
  json["allocated_high_bytes"] = memory.allocated_range.high;
  json["reserved_low_bytes"] = memory.reserved_range.low;
  json["reserved_high_bytes"] = memory.reserved_range.high;
  json["basis"] = BasisName(memory.basis);
  return json;
}

}  // namespace

Result<std::string> FormatModelFit(const MemoryModel& model,
                                   const std::optional<GpuBudget>& budget) {
  std::string out;
  std::int64_t largest = 0;
  if (budget) {
    const Result<BatchLimit> limit = model.Solve(*budget);
    if (!limit.ok()) return limit.status();
    largest = limit->batch;
    AppendLimit(*budget, *limit, &out);
  }
  const MemoryModel::Statistics s = model.statistics();
  Append(&out,
         "%" PRId64 " requests: %" PRId64 " of constant size, %" PRId64
         " a line in the batch, %" PRId64 " a parabola,\n%" PRId64
         " asked of cuDNN and torch, %" PRId64 " fitted\n",
         s.requests, s.constant, s.affine, s.quadratic, s.planned, s.fitted);
  Append(&out, "\n%9s %12s %12s %25s  %s\n", "batch", "allocated", "reserved", "reserved, interval",
         "basis");
  for (const std::int64_t batch : ModelBatches(model, largest)) {
    const Result<BatchMemory> memory = model.At(batch);
    if (!memory.ok()) return memory.status();
    const bool known = memory->reserved_range.low == memory->reserved_range.high;
    const std::string range = known ? std::string("-")
                                    : FormatBytes(memory->reserved_range.low) + " .. " +
                                          FormatBytes(memory->reserved_range.high);
    Append(&out, "%9" PRId64 " %12s %12s %25s  %s\n", batch, FormatBytes(memory->allocated).c_str(),
           FormatBytes(memory->reserved).c_str(), range.c_str(),
           std::string(BasisName(memory->basis)).c_str());
  }
  AppendFitted(model, &out);
  AppendChanges(model, &out);
  return out;
}

Result<std::string> ModelFitToJson(const MemoryModel& model,
                                   const std::optional<GpuBudget>& budget) {
  const MemoryModel::Statistics s = model.statistics();
  Json json = {{"schema_version", 1},
               {"basis", "traces"},
               {"traced_batches", model.traced_batches()},
               {"requests",
                {{"all", s.requests},
                 {"constant", s.constant},
                 {"affine", s.affine},
                 {"quadratic", s.quadratic},
                 {"asked", s.planned},
                 {"fitted", s.fitted},
                 {"at_some_batches_only", s.sometimes}}}};
  std::int64_t largest = 0;
  if (budget) {
    const Result<BatchLimit> limit = model.Solve(*budget);
    if (!limit.ok()) return limit.status();
    largest = limit->batch;
    json["budget_bytes"] = limit->budget_bytes;
    json["largest_batch"] = limit->batch;
  }
  json["curve"] = Json::array();
  for (const std::int64_t batch : ModelBatches(model, largest)) {
    const Result<BatchMemory> memory = model.At(batch);
    if (!memory.ok()) return memory.status();
    json["curve"].push_back(ToJson(*memory));
  }
  json["layers"] = Json::array();
  for (const LayerModel& layer : model.layers()) {
    Json workspace = Json::array();
    for (const BatchBytes& p : layer.workspace.traced) workspace.push_back({p.batch, p.bytes});
    json["layers"].push_back({{"path", layer.path},
                              {"type", layer.type},
                              {"weight_bytes", layer.weights},
                              {"gradient_bytes", layer.gradients},
                              {"optimizer_state_bytes", layer.optimizer_state},
                              {"activation_bytes_constant", layer.activations.alpha},
                              {"activation_bytes_per_sample", layer.activations.beta},
                              {"activations_exact", layer.activations_exact},
                              {"workspace",
                               {{"rule", layer.workspace.rule},
                                {"held_out_error_bytes", layer.workspace.held_out_error},
                                {"traced", workspace}}}});
  }
  json["order_changes"] = Json::array();
  for (const OrderChange& c : model.order_changes()) {
    json["order_changes"].push_back({{"operator", c.operator_name},
                                     {"module", c.module_path},
                                     {"phase", PhaseName(c.phase)},
                                     {"requests", c.requests},
                                     {"largest_bytes", c.largest_bytes},
                                     {"present_at", c.present},
                                     {"absent_at", c.absent}});
  }
  json["fitted_sizes"] = Json::array();
  for (const FittedSizes& f : model.fitted_sizes()) {
    json["fitted_sizes"].push_back({{"operator", f.operator_name},
                                    {"module", f.module_path},
                                    {"phase", PhaseName(f.phase)},
                                    {"requests", f.requests},
                                    {"largest_bytes", f.largest_bytes}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace memmodel
