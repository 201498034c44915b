#include "src/run/process_report.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace memmodel {
namespace {

using nlohmann::json;

template <typename T>
T GetOr(const json& object, const char* key, T fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  try {
    return found->get<T>();
  } catch (const json::exception&) {
    return fallback;
  }
}

std::vector<ScriptRead> ParseReads(const json& report, const char* key) {
  std::vector<ScriptRead> reads;
  const auto list = report.find(key);
  if (list == report.end() || !list->is_array()) return reads;
  for (const json& item : *list) {
    if (!item.is_object()) continue;
    ScriptRead read;
    read.op = GetOr<std::string>(item, "operator", "");
    read.module = GetOr<std::string>(item, "module", "");
    read.where = GetOr<std::string>(item, "where", "");
    read.reason = GetOr<std::string>(item, "reason", "");
    read.phase = GetOr<std::string>(item, "phase", "");
    read.step = GetOr<std::int64_t>(item, "step", 0);
    read.boolean = GetOr(item, "boolean", false);
    read.is_count = GetOr(item, "is_count", false);
    read.count = GetOr<std::int64_t>(item, "count", 0);
    const json positions = GetOr(item, "positions", json::object());
    for (const auto& [device, position] : positions.items()) {
      if (position.is_number_integer()) read.position[std::atoi(device.c_str())] = position;
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

std::vector<DeviceTrace> ParseDevices(const json& report) {
  std::vector<DeviceTrace> devices;
  const json list = GetOr(report, "devices", json::array());
  for (const json& item : list) {
    if (!item.is_object()) continue;
    DeviceTrace device;
    device.device = GetOr(item, "device", 0);
    device.path = GetOr<std::string>(item, "trace", "");
    device.complete = GetOr(item, "trace_complete", false);
    const json peak = GetOr(item, "peak", json::object());
    device.peak_allocated = GetOr<Bytes>(peak, "allocated_bytes", 0);
    device.peak_reserved = GetOr<Bytes>(peak, "reserved_bytes", 0);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

const DeviceTrace* ProcessReport::device() const {
  const DeviceTrace* best = nullptr;
  for (const DeviceTrace& one : devices) {
    if (best == nullptr || one.peak_allocated > best->peak_allocated) best = &one;
  }
  return best;
}

Result<ProcessReport> ParseProcessReport(std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return Status::Unavailable("a process of the script left no readable report");
  ProcessReport report;
  report.cuda_used = GetOr(object, "cuda_used", false);
  report.pid = GetOr(object, "pid", 0);
  report.ended = GetOr<std::string>(object, "ended", "");
  report.alloc_conf = GetOr<std::string>(object, "alloc_conf", "");
  report.torch_version = GetOr<std::string>(object, "torch_version", "");
  if (!report.cuda_used) {
    const json error = GetOr(object, "error", json::object());
    report.answer.error.message = GetOr<std::string>(error, "message", "");
    return report;
  }
  Result<ChildLine> line = ParseChildLine(text);
  if (!line.ok()) return line.status();
  if (!std::holds_alternative<ProbeAnswer>(*line)) {
    return Status::Unavailable("a process of the script left a report of another kind");
  }
  report.answer = std::get<ProbeAnswer>(std::move(*line));
  report.rank = GetOr(object, "rank", 0);
  report.world_size = GetOr(object, "world_size", 1);
  report.steps_done = GetOr<std::int64_t>(object, "steps_done", 0);
  if (const auto batch = GetOr<std::int64_t>(object, "batch", 0); batch > 0) report.batch = batch;
  report.bucket_bytes = GetOr<Bytes>(object, "bucket_bytes", 0);
  report.python = GetOr<std::string>(object, "python", "");
  if (const auto version = GetOr<std::int64_t>(object, "cudnn_version", 0); version > 0) {
    report.cudnn_version = version;
  }
  report.devices = ParseDevices(object);
  report.unknown = ParseReads(object, "unknown");
  report.harmless = ParseReads(object, "harmless_reads");
  report.counts = ParseReads(object, "counts");
  if (const json compiled = GetOr(object, "compiled", json()); compiled.is_object()) {
    report.compiled_functions = GetOr<std::int64_t>(compiled, "functions", 0);
    report.kernel_trials = GetOr<std::int64_t>(compiled, "trials", 0);
  }
  report.stale_bytes = GetOr<std::string>(object, "stale_bytes", "");
  return report;
}

Result<Refusal> ParseRefusal(std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return Status::Unavailable("a process of the script left no readable refusal");
  return Refusal{GetOr<std::string>(object, "code", ""), GetOr<std::string>(object, "message", "")};
}

}  // namespace memmodel
