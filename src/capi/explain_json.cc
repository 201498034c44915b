#include "src/capi/explain_json.h"

#include <nlohmann/json.hpp>

namespace memmodel {
namespace {

using nlohmann::ordered_json;

ordered_json LayerToJson(const LayerModel& layer, std::int64_t batch) {
  return {{"path", layer.path},
          {"type", layer.type},
          {"weight_bytes", layer.weights},
          {"gradient_bytes", layer.gradients},
          {"optimizer_state_bytes", layer.optimizer_state},
          {"activation_bytes", layer.activations.alpha + layer.activations.beta * batch},
          {"activation_bytes_per_sample", layer.activations.beta},
          {"activation_exact", layer.activations_exact},
          {"workspace_bytes", layer.workspace.At(batch)},
          {"workspace_rule", layer.workspace.rule}};
}

ordered_json ChangeToJson(const OrderChange& change) {
  return {{"operator", change.operator_name}, {"module", change.module_path},
          {"phase", PhaseName(change.phase)}, {"present", change.present},
          {"absent", change.absent},          {"largest_bytes", change.largest_bytes},
          {"requests", change.requests}};
}

}  // namespace

Result<std::string> ModelToJson(const MemoryModel& model, std::int64_t batch) {
  const Result<BatchMemory> at = model.At(batch);
  if (!at.ok()) return at.status();
  ordered_json json;
  json["schema_version"] = 1;
  json["batch"] = batch;
  json["peak"] = {{"allocated_bytes", at->allocated}, {"reserved_bytes", at->reserved}};
  if (at->device) json["peak"]["device_bytes"] = *at->device;
  json["interval"] = {{"allocated_low_bytes", at->allocated_range.low},
                      {"allocated_high_bytes", at->allocated_range.high},
                      {"reserved_low_bytes", at->reserved_range.low},
                      {"reserved_high_bytes", at->reserved_range.high},
                      {"basis", BasisName(at->basis)}};
  const PeakMoment moment = model.PeakAt(batch);
  json["peak_moment"] = {{"step", moment.step},
                         {"phase", PhaseName(moment.phase)},
                         {"operator", moment.operator_name},
                         {"module", moment.module_path}};
  json["layers"] = ordered_json::array();
  for (const LayerModel& layer : model.layers()) json["layers"].push_back(LayerToJson(layer, batch));
  json["order_changes"] = ordered_json::array();
  for (const OrderChange& change : model.order_changes()) {
    json["order_changes"].push_back(ChangeToJson(change));
  }
  json["fitted_sizes"] = ordered_json::array();
  for (const FittedSizes& f : model.fitted_sizes()) {
    json["fitted_sizes"].push_back({{"operator", f.operator_name},
                                    {"module", f.module_path},
                                    {"phase", PhaseName(f.phase)},
                                    {"largest_bytes", f.largest_bytes},
                                    {"requests", f.requests}});
  }
  json["provenance"] = {{"traced_batches", model.traced_batches()},
                        {"alloc_conf", model.alloc_conf()}};
  const ordered_json metadata = ordered_json::parse(model.metadata(), nullptr, false);
  if (metadata.is_object()) json["provenance"]["trace"] = metadata;
  // Names come from a user's network: bytes that are not UTF-8 are replaced.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace memmodel
