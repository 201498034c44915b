// The JSON of `memmodel predict --json`; docs/json.md describes each field.
#include <nlohmann/json.hpp>

#include "memmodel/report.h"

namespace memmodel {
namespace {

using nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

template <typename T>
void Put(ordered_json* object, const char* key, const std::optional<T>& value) {
  if (value) (*object)[key] = *value;
}

ordered_json Request(const PredictOptions& options, const Prediction& prediction) {
  const Job& job = options.job;
  ordered_json request;
  request["model"] = job.model;
  if (!prediction.model_kind.empty()) request["kind"] = prediction.model_kind;
  request["gpu"] = {{"name", options.device.name},
                    {"device_name", options.device.device_name},
                    {"total_bytes", options.total_bytes}};
  Put(&request, "batch", options.batch);
  request["target"] = options.target;
  Put(&request, "allocator_limit_bytes", options.allocator_limit);
  request["inputs"] = ordered_json::array();
  for (const InputSpec& input : prediction.inputs) {
    ordered_json item;
    if (!input.name.empty()) item["name"] = input.name;
    item["shape"] = input.shape;
    if (!input.dtype.empty()) item["dtype"] = input.dtype;
    item["assumed"] = input.assumed;
    request["inputs"].push_back(item);
  }
  ordered_json optimizer_options = ordered_json::object();
  for (const auto& [key, value] : job.optimizer.options) optimizer_options[key] = value;
  request["optimizer"] = {{"name", job.optimizer.name}, {"options", optimizer_options}};
  request["precision"] = Name(job.precision);
  request["loss"] = prediction.loss.empty() ? std::string(Name(job.loss)) : prediction.loss;
  request["mode"] = Name(job.mode);
  request["accumulate"] = job.accumulate;
  request["channels_last"] = job.channels_last;
  request["cudnn_benchmark"] = job.cudnn_benchmark;
  if (job.clip_grad_norm > 0) request["clip_grad_norm"] = job.clip_grad_norm;
  if (job.ema) request["ema"] = true;
  if (!job.checkpoint.empty()) request["checkpoint"] = job.checkpoint;
  request["steps"] = options.steps;
  request["step_protocol"] = Name(job.step_protocol);
  request["device"] = Name(job.device);
  if (!job.alloc_conf.empty()) request["alloc_conf"] = job.alloc_conf;
  if (options.unknown_count) request["unknown_count"] = *options.unknown_count;
  request["assumed"] = options.assumed;
  std::vector<std::string> assumptions = options.assumptions;
  assumptions.insert(assumptions.end(), prediction.assumptions.begin(),
                     prediction.assumptions.end());
  request["assumptions"] = assumptions;
  return request;
}

ordered_json PeakJson(const Peak& peak) {
  return {{"allocated_bytes", peak.allocated},
          {"reserved_bytes", peak.reserved},
          {"device_bytes", peak.device}};
}

ordered_json BreakdownJson(const Prediction& prediction) {
  ordered_json object;
  const Breakdown& breakdown = prediction.use->breakdown;
  for (int i = 0; i < kMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    object[std::string(Name(kind))] = breakdown.of(kind);
  }
  object["fragmentation"] = breakdown.fragmentation();
  object["context"] = *prediction.context;
  return object;
}

ordered_json PeakMoment(const Breakdown& breakdown) {
  ordered_json object = {{"step", breakdown.step + 1}, {"phase", PhaseName(breakdown.phase)}};
  if (!breakdown.op.empty()) object["operator"] = breakdown.op;
  if (!breakdown.module.empty()) object["module"] = breakdown.module;
  return object;
}

void PutUse(const Prediction& prediction, ordered_json* object) {
  (*object)["breakdown"] = BreakdownJson(prediction);
  (*object)["peak_moment"] = PeakMoment(prediction.use->breakdown);
  ordered_json phases = ordered_json::array();
  for (const PhaseMemory& phase : prediction.use->phases) {
    phases.push_back({{"step", phase.step + 1},
                      {"phase", PhaseName(phase.phase)},
                      {"allocated_peak_bytes", phase.allocated_peak},
                      {"reserved_bytes", phase.reserved}});
  }
  (*object)["phases"] = phases;
}

ordered_json LayersJson(const std::vector<LayerMemory>& layers) {
  ordered_json list = ordered_json::array();
  for (const LayerMemory& layer : layers) {
    ordered_json item;
    item["path"] = layer.path;
    if (!layer.type.empty()) item["type"] = layer.type;
    item["weight_bytes"] = layer.weight_bytes;
    item["activation_bytes"] = layer.activation_bytes;
    Put(&item, "activation_bytes_per_sample", layer.activation_bytes_per_sample);
    item["workspace_bytes"] = layer.workspace_bytes;
    list.push_back(item);
  }
  return list;
}

ordered_json Provenance(const PredictOptions& options, const Prediction& prediction) {
  ordered_json object;
  if (!prediction.torch_version.empty()) object["torch_version"] = prediction.torch_version;
  Put(&object, "cudnn_version", prediction.cudnn_version);
  if (!prediction.workspace_basis.empty()) object["workspace"] = prediction.workspace_basis;
  object["device"] = options.device.provenance;
  object["context"] = options.device.SourceKind("context.base_bytes");
  object["unknown"] = ordered_json::array();
  for (const UnknownValue& value : prediction.unknown) {
    ordered_json item = {{"operator", value.op}};
    if (!value.module.empty()) item["module"] = value.module;
    object["unknown"].push_back(item);
  }
  if (!prediction.refused.empty()) object["refused"] = prediction.refused;
  if (!prediction.approximate.empty()) object["approximate"] = prediction.approximate;
  return object;
}

}  // namespace

std::string FormatJson(const PredictOptions& options, const Prediction& prediction) {
  ordered_json object;
  object["schema_version"] = kSchemaVersion;
  object["memmodel_version"] = Version();
  object["verdict"] = Name(prediction.verdict);
  object["reason"] = prediction.reason;
  object["request"] = Request(options, prediction);
  Put(&object, "batch", prediction.batch);
  if (prediction.peak) object["peak"] = PeakJson(*prediction.peak);
  if (prediction.interval) {
    object["interval"] = {{"low_bytes", prediction.interval->low},
                          {"high_bytes", prediction.interval->high},
                          {"basis", prediction.interval->basis}};
  }
  if (prediction.use && prediction.context) PutUse(prediction, &object);
  Put(&object, "certain_bytes", prediction.certain_bytes);
  Put(&object, "largest_batch", prediction.largest_batch);
  Put(&object, "largest_batch_before_oom", prediction.largest_batch_before_oom);
  ordered_json allocator = ordered_json::object();
  Put(&allocator, "retries", prediction.retries);
  Put(&allocator, "ooms", prediction.ooms);
  Put(&allocator, "segments", prediction.segments);
  if (!allocator.empty()) object["allocator"] = allocator;
  if (!prediction.curve.empty()) {
    ordered_json curve = ordered_json::array();
    for (const CurvePoint& point : prediction.curve) {
      ordered_json item = {{"batch", point.batch}};
      item.update(PeakJson(point.peak));
      curve.push_back(item);
    }
    object["curve"] = curve;
  }
  if (prediction.use) object["layers"] = LayersJson(prediction.use->layers);
  object["provenance"] = Provenance(options, prediction);
  const Prediction::Timings& t = prediction.timings;
  object["timings_ms"] = {{"start", t.start_ms},
                          {"load", t.load_ms},
                          {"trace", t.trace_ms},
                          {"solve", t.solve_ms},
                          {"total", t.total_ms}};
  return object.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace memmodel
