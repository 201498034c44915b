// Reads measured runs. The names of the fields are those that measuring scripts
// write: docs/validation.md lists them with their other spellings.
#include <nlohmann/json.hpp>
#include <sstream>

#include "memmodel/validate.h"
#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLargestFile = std::size_t{1} << 28;

// The value of the first of `names` that is there and not null.
const Json* Find(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto it = object.find(name);
    if (it != object.end() && !it->is_null() && !(it->is_string() && *it == "")) return &*it;
  }
  return nullptr;
}

std::optional<std::int64_t> Integer(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_number()) return static_cast<std::int64_t>(value->get<double>());
  if (value->is_string()) {
    const Result<Bytes> bytes = ParseBytes(value->get<std::string>());
    if (bytes.ok()) return *bytes;
  }
  return std::nullopt;
}

bool Flag(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  return *value == "true" || *value == "True" || *value == "1" || *value == 1;
}

std::string Text(const Json* value) {
  if (value == nullptr) return "";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

// Short names of optimizers and precisions in measured files, as torch spells them.
std::string OptimizerText(const std::string& name) {
  if (name == "sgd") return "sgd:momentum=0.9";
  if (name == "sgd0") return "sgd";
  if (name == "adamw_fused") return "adamw:fused=true";
  if (name == "adamw_loop") return "adamw:foreach=false";
  return name;
}

std::string PrecisionText(const std::string& name) {
  if (name == "bf16") return "amp-bf16";
  if (name == "fp16") return "amp-fp16";
  return name;
}

Status FillJob(const Json& object, MeasuredRun* run) {
  const std::string optimizer = Text(Find(object, {"opt", "optimizer"}));
  if (!optimizer.empty()) {
    Result<OptimizerSpec> spec = ParseOptimizer(OptimizerText(optimizer));
    if (!spec.ok()) return spec.status();
    run->job.optimizer = *std::move(spec);
  }
  if (const Json* precision = Find(object, {"prec"})) {
    Result<Precision> parsed = ParsePrecision(PrecisionText(Text(precision)));
    if (!parsed.ok()) return parsed.status();
    run->job.precision = *parsed;
  } else if (const Json* full = Find(object, {"precision"})) {
    Result<Precision> parsed = ParsePrecision(Text(full));
    if (!parsed.ok()) return parsed.status();
    run->job.precision = *parsed;
  }
  run->job.step_protocol = StepProtocol::kMinimal;
  if (const Json* protocol = Find(object, {"step_protocol"})) {
    Result<StepProtocol> parsed = ParseStepProtocol(Text(protocol));
    if (!parsed.ok()) return parsed.status();
    run->job.step_protocol = *parsed;
  }
  if (const Json* input = Find(object, {"input"})) {
    Result<InputSpec> spec = ParseInputSpec(Text(input));
    if (!spec.ok()) return spec.status();
    run->job.inputs = {*std::move(spec)};
  }
  if (const Json* loss = Find(object, {"loss"})) {
    Result<Loss> parsed = ParseLoss(Text(loss));
    if (!parsed.ok()) return parsed.status();
    run->job.loss = *parsed;
  }
  run->job.cudnn_benchmark = Flag(Find(object, {"bench", "cudnn_benchmark"}));
  run->job.channels_last = Flag(Find(object, {"cl", "channels_last"}));
  run->job.alloc_conf = Text(Find(object, {"conf_value", "alloc_conf"}));
  run->job.accumulate = static_cast<int>(Integer(Find(object, {"accumulate"})).value_or(1));
  const std::string mode = Text(Find(object, {"mode"}));
  if (mode == "infer") {
    run->job.mode = Mode::kInfer;
  } else if (!mode.empty() && mode != "train") {
    run->skipped = "mode '" + mode + "' is not one that validate runs";
  }
  return {};
}

// "reserved_end_bytes", or the last of "marks" (each with what was reserved at a step's end).
std::optional<Bytes> ReservedAtEnd(const Json& object) {
  if (const auto bytes = Integer(Find(object, {"reserved_end_bytes"}))) return bytes;
  const Json* marks = Find(object, {"marks"});
  if (marks == nullptr || !marks->is_array() || marks->empty() || !marks->back().is_object()) {
    return std::nullopt;
  }
  return Integer(Find(marks->back(), {"reserved"}));
}

Result<MeasuredRun> ParseRun(const Json& object, int line, const std::string& name) {
  const std::string where = name + ":" + std::to_string(line) + ": ";
  MeasuredRun run;
  run.line = line;
  run.model = Text(Find(object, {"model"}));
  const bool search =
      Find(object, {"max_ok"}) != nullptr || Text(Find(object, {"kind"})) == "max_batch";
  run.batch = Integer(Find(object, {search ? "max_ok" : "batch"})).value_or(0);
  if (search) run.smallest_oom = Integer(Find(object, {"min_oom"}));
  if (run.model.empty() || run.model.find('/') != std::string::npos) {
    return Status::BadInput(where + "no field 'model' with a name");
  }
  if (run.batch < 1 && !search) return Status::BadInput(where + "no field 'batch' above 0");
  if (Status status = FillJob(object, &run); !status.ok()) {
    return Status::BadInput(where + status.message());
  }
  run.steps = static_cast<int>(Integer(Find(object, {"steps"})).value_or(3));
  run.allocated = Integer(Find(object, {"peak_alloc", "allocated_bytes"}));
  run.reserved = Integer(Find(object, {"peak_reserved", "reserved_bytes"}));
  run.device = Integer(Find(object, {"nvml", "device_bytes"}));
  // NVML was read at the end: what had been given back since the peak is added again.
  const auto at_end = ReservedAtEnd(object);
  if (run.device && run.reserved && at_end) *run.device += *run.reserved - *at_end;
  if (const auto cap = Integer(Find(object, {"cap"}))) {
    run.cap = *cap < 4096 ? *cap * kGiB : *cap;  // small numbers are GiB
  }
  const Json* ok = Find(object, {"ok"});
  if (ok != nullptr && !Flag(ok)) run.skipped = "the run did not end well";
  if (search && run.batch < 1) run.skipped = "no batch ran";
  return run;
}

std::vector<std::string> CsvFields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back().push_back(c);
    }
  }
  return fields;
}

}  // namespace

Result<std::vector<MeasuredRun>> ParseRuns(std::string_view text, const std::string& name) {
  std::istringstream lines{std::string(text)};
  std::string line;
  std::vector<std::string> header;
  std::vector<MeasuredRun> runs;
  int number = 0;
  while (std::getline(lines, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json object;
    if (header.empty() && line.front() == '{') {
      object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    } else if (header.empty() && runs.empty()) {
      header = CsvFields(line);
      continue;
    } else if (!header.empty()) {
      const std::vector<std::string> fields = CsvFields(line);
      if (fields.size() == header.size()) {
        object = Json::object();
        for (std::size_t i = 0; i < fields.size(); ++i) object[header[i]] = fields[i];
      }
    }
    if (!object.is_object()) {
      return Status::BadInput(
          name + ":" + std::to_string(number) +
          (header.empty() ? ": not a JSON object" : ": another number of fields than the header"));
    }
    Result<MeasuredRun> run = ParseRun(object, number, name);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  if (runs.empty()) {
    return Status::BadInput(name + " holds no runs: expected JSON objects, one a line, or CSV");
  }
  return runs;
}

Result<std::vector<MeasuredRun>> ReadRuns(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  return ParseRuns(*text, path);
}

}  // namespace memmodel
