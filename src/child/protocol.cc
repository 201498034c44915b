#include "src/child/protocol.h"

#include <nlohmann/json.hpp>

namespace memmodel {
namespace {

using nlohmann::json;

// The value of `key` if it is there, is not null and has the wanted type.
template <typename T>
std::optional<T> Get(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return std::nullopt;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) return std::nullopt;
  } else {
    if (!found->is_number()) return std::nullopt;
  }
  return found->get<T>();
}

template <typename T>
T GetOr(const json& object, const char* key, T fallback) {
  return Get<T>(object, key).value_or(std::move(fallback));
}

const json& Child(const json& object, const char* key) {
  static const json empty = json::object();
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? empty : *found;
}

const json& List(const json& object, const char* key) {
  static const json empty = json::array();
  const auto found = object.find(key);
  return found == object.end() || !found->is_array() ? empty : *found;
}

// An option's value as JSON: true, 0.9, 2 or a string.
json OptionValue(const std::string& text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  const json number = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return number.is_number() ? number : json(text);
}

LoadedModel ParseLoaded(const json& line) {
  LoadedModel loaded;
  loaded.kind = GetOr<std::string>(line, "kind", "");
  loaded.torch_version = GetOr<std::string>(line, "torch_version", "");
  loaded.cudnn_version = Get<std::int64_t>(line, "cudnn_version");
  loaded.parameters = GetOr<std::int64_t>(line, "parameters", 0);
  loaded.parameter_bytes = GetOr<Bytes>(line, "parameter_bytes", 0);
  loaded.buffer_bytes = GetOr<Bytes>(line, "buffer_bytes", 0);
  for (const json& input : List(line, "inputs")) {
    InputSpec spec;
    spec.name = GetOr<std::string>(input, "name", "");
    for (const json& size : List(input, "shape")) {
      if (size.is_number_integer()) spec.shape.push_back(size.get<std::int64_t>());
    }
    spec.dtype = GetOr<std::string>(input, "dtype", "");
    spec.assumed = GetOr<bool>(input, "assumed", false);
    loaded.inputs.push_back(std::move(spec));
  }
  loaded.batch_fixed = Get<std::int64_t>(line, "batch_fixed");
  loaded.loss = GetOr<std::string>(line, "loss", "");
  for (const json& text : List(line, "assumptions")) {
    if (text.is_string()) loaded.assumptions.push_back(text.get<std::string>());
  }
  loaded.load_ms = GetOr<double>(line, "load_ms", 0);
  return loaded;
}

std::vector<ProbeAnswer::Refused> ParseCalls(const json& list) {
  std::vector<ProbeAnswer::Refused> calls;
  for (const json& item : list) {
    if (!item.is_object()) continue;
    calls.push_back(
        {GetOr<std::string>(item, "function", ""), GetOr<std::int64_t>(item, "count", 1)});
  }
  return calls;
}

std::vector<UnknownRead> ParseReads(const json& list) {
  std::vector<UnknownRead> reads;
  for (const json& item : list) {
    if (item.is_string()) {
      reads.push_back({item.get<std::string>(), "", 0, ""});
    } else if (item.is_object()) {
      reads.push_back({GetOr<std::string>(item, "operator", ""),
                       GetOr<std::string>(item, "module", ""), GetOr<Bytes>(item, "bytes", 0),
                       GetOr<std::string>(item, "where", "")});
    }
  }
  return reads;
}

std::optional<StepPeaks::PhasePeak> ParsePhase(const json& step, const char* key) {
  const json& phase = Child(step, key);
  const std::optional<Bytes> peak = Get<Bytes>(phase, "peak_allocated_bytes");
  if (!peak) return std::nullopt;
  return StepPeaks::PhasePeak{*peak, GetOr<Bytes>(phase, "allocated_bytes", 0)};
}

Result<ProbeAnswer> ParseProbe(const json& line) {
  ProbeAnswer answer;
  answer.id = line.at("probe").get<int>();
  const std::string outcome = GetOr<std::string>(line, "outcome", "");
  if (outcome == "ok") {
    answer.outcome = Outcome::kOk;
  } else if (outcome == "oom") {
    answer.outcome = Outcome::kOutOfMemory;
  } else if (outcome == "error") {
    answer.outcome = Outcome::kError;
  } else {
    return Status::Unavailable("the child answered with the outcome '" + outcome + "'");
  }
  const json& peak = Child(line, "peak");
  answer.peak_allocated = Get<Bytes>(peak, "allocated_bytes");
  answer.peak_reserved = Get<Bytes>(peak, "reserved_bytes");
  answer.peak_active = Get<Bytes>(peak, "active_bytes");
  answer.peak_requested = Get<Bytes>(peak, "requested_bytes");
  if (answer.outcome == Outcome::kOk && (!answer.peak_allocated || !answer.peak_reserved)) {
    return Status::Unavailable("the child answered a probe without its peaks");
  }
  answer.weights = Get<Bytes>(line, "weights_bytes");
  answer.retries = GetOr<std::int64_t>(line, "retries", 0);
  answer.ooms = GetOr<std::int64_t>(line, "ooms", 0);
  answer.segments = Get<std::int64_t>(line, "segments");
  for (const json& step : List(line, "steps")) {
    if (!step.is_object()) continue;
    StepPeaks peaks;
    peaks.forward = ParsePhase(step, "forward");
    peaks.backward = ParsePhase(step, "backward");
    peaks.step = ParsePhase(step, "step");
    peaks.reserved = Get<Bytes>(step, "reserved_bytes");
    answer.steps.push_back(peaks);
  }
  answer.unknown = ParseReads(List(line, "unknown"));
  answer.harmless = ParseReads(List(line, "harmless_reads"));
  answer.refused = ParseCalls(List(line, "refused"));
  answer.approximate = ParseCalls(List(line, "approximate"));
  const json& context = Child(line, "context");
  answer.context.modules_loaded = Get<std::int64_t>(context, "modules_loaded");
  answer.context.code_bytes = Get<Bytes>(context, "code_bytes");
  answer.context.kernels = Get<std::int64_t>(context, "distinct_kernels");
  if (!answer.context.kernels) answer.context.kernels = Get<std::int64_t>(context, "kernels");
  answer.context.cublas_handles = Get<std::int64_t>(context, "cublas_handles");
  answer.context.cublaslt_handles = Get<std::int64_t>(context, "cublaslt_handles");
  answer.context.cudnn_handles = Get<std::int64_t>(context, "cudnn_handles");
  answer.context.measured = Get<Bytes>(context, "measured_bytes");
  answer.workspace_basis = GetOr<std::string>(line, "workspace", "");
  const json& error = Child(line, "error");
  answer.error.message = GetOr<std::string>(error, "message", "");
  answer.error.op = GetOr<std::string>(error, "operator", "");
  answer.error.module = GetOr<std::string>(error, "module", "");
  answer.elapsed_ms = GetOr<double>(line, "elapsed_ms", 0);
  return answer;
}

Status ParseError(const json& error) {
  const std::string code = GetOr<std::string>(error, "code", "internal");
  std::string message = GetOr<std::string>(error, "message", "the child gave no reason");
  // The operator and module are named once, whether or not the message has them.
  std::string where;
  for (const char* key : {"operator", "module"}) {
    const std::string name = GetOr<std::string>(error, key, "");
    if (name.empty() || message.find(name) != std::string::npos) continue;
    where += (where.empty() ? " (" : ", ") + std::string(key) + " " + name;
  }
  if (!where.empty()) message += where + ")";
  if (code == "bad_input") return Status::BadInput(message);
  if (code == "invalid_argument") return Status::InvalidArgument(message);
  if (code == "unknown") return Status::Unknown(message);
  return Status::Internal(message);
}

}  // namespace

std::string FormatJob(const Job& job, Bytes memory_limit) {
  json inputs = json::array();
  for (const InputSpec& input : job.inputs) {
    inputs.push_back({{"name", input.name}, {"shape", input.shape}, {"dtype", input.dtype}});
  }
  json options = json::object();
  for (const auto& [key, value] : job.optimizer.options) options[key] = OptionValue(value);
  const json line = {{"job", 1},
                     {"model", job.model},
                     {"device", Name(job.device)},
                     {"inputs", inputs},
                     {"optimizer", {{"name", job.optimizer.name}, {"options", options}}},
                     {"precision", Name(job.precision)},
                     {"loss", Name(job.loss)},
                     {"mode", Name(job.mode)},
                     {"accumulate", job.accumulate},
                     {"channels_last", job.channels_last},
                     {"cudnn_benchmark", job.cudnn_benchmark},
                     {"step_protocol", Name(job.step_protocol)},
                     {"alloc_conf", job.alloc_conf},
                     {"clip_grad_norm", job.clip_grad_norm},
                     {"ema", job.ema},
                     {"checkpoint", job.checkpoint},
                     {"memory_limit_bytes", memory_limit}};
  // A path may hold any bytes; JSON only text: what is no UTF-8 is replaced, and
  // the child then says that it cannot read the file.
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string FormatProbe(const ProbeRequest& probe) {
  json line = {{"probe", probe.id},
               {"batch", probe.batch},
               {"steps", probe.steps},
               {"total_bytes", probe.total_bytes},
               {"context_bytes", probe.context_bytes},
               {"allocator_limit_bytes", probe.allocator_limit_bytes},
               {"largest_workspace_fastest", probe.largest_workspace_fastest},
               {"trace", probe.trace},
               {"unknown_count", nullptr}};
  if (probe.unknown_count) line["unknown_count"] = *probe.unknown_count;
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ChildLine> ParseChildLine(std::string_view text) {
  const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string shown(text.substr(0, 80));
  if (!line.is_object()) {
    return Status::Unavailable("the child wrote '" + shown + "' where an answer was expected");
  }
  try {
    if (line.contains("probe")) {
      Result<ProbeAnswer> answer = ParseProbe(line);
      if (!answer.ok()) return answer.status();
      return ChildLine(std::move(answer).value());
    }
    if (GetOr<bool>(line, "loaded", false)) return ChildLine(ParseLoaded(line));
    if (line.contains("error") && line["error"].is_object()) return ParseError(line["error"]);
  } catch (const json::exception&) {
    // Falls through: a field of the wrong type.
  }
  return Status::Unavailable("the child wrote '" + shown + "' where an answer was expected");
}

}  // namespace memmodel
