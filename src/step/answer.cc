#include "src/step/answer.h"

#include <nlohmann/json.hpp>

namespace memmodel::step {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string Line(const ordered_json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

ordered_json Reads(const std::vector<tracer::UnknownRead>& reads) {
  ordered_json list = json::array();
  for (const tracer::UnknownRead& read : reads) {
    ordered_json entry = {{"operator", read.op},
                          {"module", read.module},
                          {"bytes", read.bytes},
                          {"count", read.count},
                          {"where", read.where}};
    if (!read.answer.empty()) entry["answered"] = read.answer;
    list.push_back(std::move(entry));
  }
  return list;
}

ordered_json Phase(const PhaseFigures& phase) {
  return {{"peak_allocated_bytes", phase.peak_allocated}, {"allocated_bytes", phase.allocated}};
}

}  // namespace

std::string FormatLoaded(const LoadedAnswer& answer) {
  ordered_json inputs = json::array();
  for (const InputFigure& input : answer.inputs) {
    inputs.push_back({{"name", input.name},
                      {"shape", input.shape},
                      {"dtype", input.dtype},
                      {"assumed", input.assumed}});
  }
  ordered_json object = {{"loaded", true},
                         {"kind", answer.kind},
                         {"torch_version", answer.torch_version},
                         {"cudnn_version", answer.cudnn_version},
                         {"parameters", answer.parameters},
                         {"parameter_bytes", answer.parameter_bytes},
                         {"buffer_bytes", answer.buffer_bytes},
                         {"inputs", std::move(inputs)},
                         {"batch_fixed", nullptr},
                         {"loss", answer.loss},
                         {"assumptions", answer.assumptions},
                         {"load_ms", answer.load_ms}};
  if (answer.batch_fixed) object["batch_fixed"] = *answer.batch_fixed;
  return Line(object);
}

std::string FormatStateDict(const StateDictAnswer& answer) {
  ordered_json tensors = json::array();
  for (const PickledTensor& tensor : answer.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"dtype", tensor.dtype},
                       {"bytes", tensor.bytes}});
  }
  return Line({{"loaded", true},
               {"kind", "state_dict"},
               {"what", answer.what},
               {"parameters", answer.parameters},
               {"parameter_bytes", answer.parameter_bytes},
               {"tensors", std::move(tensors)}});
}

std::string FormatProbe(const ProbeAnswer& answer) {
  ordered_json steps = json::array();
  for (const StepFigures& step : answer.steps) {
    steps.push_back({{"forward", Phase(step.forward)},
                     {"backward", Phase(step.backward)},
                     {"step", Phase(step.step)},
                     {"reserved_bytes", step.reserved}});
  }
  ordered_json object = {{"probe", answer.id},
                         {"outcome", answer.outcome},
                         {"peak",
                          {{"allocated_bytes", answer.peak_allocated},
                           {"reserved_bytes", answer.peak_reserved},
                           {"active_bytes", answer.peak_active},
                           {"requested_bytes", answer.peak_requested}}},
                         {"weights_bytes", answer.weights},
                         {"retries", answer.retries},
                         {"ooms", answer.ooms},
                         {"segments", answer.segments},
                         {"loss", answer.loss},
                         {"steps", std::move(steps)},
                         {"unknown", Reads(answer.unknown.deciding)},
                         {"harmless_reads", Reads(answer.unknown.harmless)},
                         {"refused", json::array()},
                         {"approximate", json::array()}};
  const json report = json::parse(answer.vgpu_report, nullptr, false);
  if (report.is_object()) {
    object["refused"] = report.value("refused", json::array());
    object["approximate"] = report.value("approximate", json::array());
    if (report.contains("workspace")) object["workspace"] = report["workspace"];
    object["context"] = json::object();
    for (const char* key : {"modules_loaded", "code_bytes", "cublas_handles", "cudnn_handles",
                            "distinct_kernels", "measured_bytes"}) {
      if (report.contains(key)) object["context"][key] = report[key];
    }
  }
  if (answer.outcome != "ok") {
    object["error"] = {{"message", answer.error_message},
                       {"operator", answer.error_operator},
                       {"module", answer.error_module}};
  }
  object["elapsed_ms"] = answer.elapsed_ms;
  return Line(object);
}

}  // namespace memmodel::step
