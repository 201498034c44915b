#include "src/step/job.h"

#include <array>
#include <nlohmann/json.hpp>

namespace memmodel::step {
namespace {

using nlohmann::json;

constexpr int kProtocolVersion = 1;
constexpr std::array<std::string_view, 3> kProtocolNames = {"loop", "minimal", "fresh"};

// Reads the members of one JSON object; the first that does not fit is kept as the error.
class Members {
 public:
  Members(const json& object, std::string what) : object_(object), what_(std::move(what)) {}

  template <typename T>
  void Read(const char* name, T* value) {
    const auto it = object_.find(name);
    if (it == object_.end() || it->is_null() || !status_.ok()) return;
    try {
      *value = it->get<T>();
    } catch (const json::exception&) {
      status_ = Status::InvalidArgument(what_ + ": \"" + name + "\" has the value " + it->dump() +
                                        ", which is not of its type");
    }
  }

  template <std::size_t N>
  void ReadChoice(const char* name, const std::array<std::string_view, N>& choices,
                  std::string* value) {
    Read(name, value);
    if (!status_.ok()) return;
    std::string list;
    for (const std::string_view choice : choices) {
      if (choice == *value) return;
      list.append(list.empty() ? "" : ", ").append(choice);
    }
    status_ = Status::InvalidArgument(what_ + ": \"" + name + "\" is \"" + *value +
                                      "\"; expected one of " + list);
  }

  void Require(bool condition, const std::string& message) {
    if (status_.ok() && !condition) status_ = Status::InvalidArgument(what_ + ": " + message);
  }

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const json& object_;
  std::string what_;
  Status status_;
};

std::optional<OptionValue> ToOption(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  std::vector<double> numbers;
  for (const json& element : value) {
    if (!element.is_number()) return std::nullopt;
    numbers.push_back(element.get<double>());
  }
  return numbers;
}

Status ReadOptimizer(const json& object, OptimizerSpec* spec) {
  Members members(object, "optimizer");
  members.Read("name", &spec->name);
  json options = json::object();
  members.Read("options", &options);
  if (!members.status().ok()) return members.status();
  if (!options.is_object()) {
    return Status::InvalidArgument("optimizer: \"options\" is " + options.dump() +
                                   "; expected an object such as {\"momentum\":0.9}");
  }
  for (const auto& [name, value] : options.items()) {
    const std::optional<OptionValue> option = ToOption(value);
    if (!option) {
      return Status::InvalidArgument("optimizer " + spec->name + ": option " + name +
                                     " has the value " + value.dump() +
                                     "; expected true, false, a number, text or numbers");
    }
    spec->options.emplace(name, *option);
  }
  return {};
}

Status ReadInput(const json& object, InputRequest* input) {
  Members members(object, "input");
  members.Read("name", &input->name);
  members.Read("shape", &input->shape);
  members.Read("dtype", &input->dtype);
  for (const std::int64_t size : input->shape) {
    members.Require(size > 0, "a shape has the size " + std::to_string(size) +
                                  "; sizes are 1 or more, without the batch dimension");
  }
  return members.status();
}

Result<json> ParseObject(std::string_view line, const char* what) {
  json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Status::InvalidArgument(std::string("expected one JSON object, the ") + what +
                                   ", on one line; found '" + std::string(line.substr(0, 60)) +
                                   "'");
  }
  return object;
}

}  // namespace

Result<Job> ParseJob(std::string_view line) {
  const Result<json> object = ParseObject(line, "job");
  if (!object.ok()) return object.status();
  Job job;
  Members members(*object, "job");
  int version = 0;
  members.Read("job", &version);
  members.Require(version == kProtocolVersion, "protocol version " + std::to_string(version) +
                                                   ", this program speaks version 1");
  members.Read("model", &job.model);
  members.Require(!job.model.empty(), "\"model\" is missing: the path of a .pt or .pt2 file");
  std::string device = "virtual";
  members.ReadChoice("device", std::array<std::string_view, 2>{"virtual", "cuda"}, &device);
  job.virtual_device = device == "virtual";
  members.ReadChoice(
      "precision", std::array<std::string_view, 5>{"fp32", "amp-bf16", "amp-fp16", "bf16", "fp16"},
      &job.precision);
  members.ReadChoice("loss", std::array<std::string_view, 5>{"auto", "ce", "mse", "sum", "output"},
                     &job.loss);
  std::string mode = "train";
  members.ReadChoice("mode", std::array<std::string_view, 2>{"train", "infer"}, &mode);
  job.training = mode == "train";
  members.Read("accumulate", &job.accumulate);
  members.Require(job.accumulate >= 1 && job.accumulate <= 1'000'000,
                  "\"accumulate\" is " + std::to_string(job.accumulate) + "; expected 1 or more");
  members.Read("channels_last", &job.channels_last);
  members.Read("cudnn_benchmark", &job.cudnn_benchmark);
  members.Read("clip_grad_norm", &job.clip_grad_norm);
  members.Read("ema", &job.ema);
  members.Read("checkpoint", &job.checkpoint);
  std::string protocol = "loop";
  members.ReadChoice("step_protocol", kProtocolNames, &protocol);
  job.protocol = protocol == "loop"      ? StepProtocol::kLoop
                 : protocol == "minimal" ? StepProtocol::kMinimal
                                         : StepProtocol::kFresh;
  members.Read("alloc_conf", &job.alloc_conf);
  members.Read("memory_limit_bytes", &job.memory_limit_bytes);
  members.Read("cpu_limit_s", &job.cpu_limit_s);
  json inputs = json::array();
  json optimizer = json::object();
  members.Read("inputs", &inputs);
  members.Read("optimizer", &optimizer);
  members.Require(inputs.is_array(), "\"inputs\" is not a list");
  if (!members.status().ok()) return members.status();
  for (const json& input : inputs) {
    InputRequest request;
    if (Status status = ReadInput(input, &request); !status.ok()) return status;
    job.inputs.push_back(std::move(request));
  }
  if (Status status = ReadOptimizer(optimizer, &job.optimizer); !status.ok()) return status;
  return job;
}

Result<Probe> ParseProbe(std::string_view line) {
  const Result<json> object = ParseObject(line, "probe");
  if (!object.ok()) return object.status();
  Probe probe;
  probe.id = -1;
  Members members(*object, "probe");
  members.Read("probe", &probe.id);
  members.Read("batch", &probe.batch);
  members.Read("steps", &probe.steps);
  members.Read("total_bytes", &probe.total_bytes);
  members.Read("context_bytes", &probe.context_bytes);
  members.Read("allocator_limit_bytes", &probe.allocator_limit_bytes);
  members.Read("largest_workspace_fastest", &probe.largest_workspace_fastest);
  members.Read("trace", &probe.trace);
  members.Require(probe.id >= 0, "\"probe\" is missing: a number that the answer repeats");
  members.Require(probe.batch >= 1,
                  "batch " + std::to_string(probe.batch) + "; a batch has 1 sample or more");
  members.Require(probe.steps >= 1,
                  "steps " + std::to_string(probe.steps) + "; expected 1 or more");
  members.Require(
      probe.total_bytes >= 0 && probe.context_bytes >= 0 && probe.allocator_limit_bytes >= 0,
      "a negative number of bytes");
  const auto count = object->find("unknown_count");
  if (count != object->end() && !count->is_null()) {
    if (*count == "max") {
      probe.unknown_count = 1.0;
    } else if (count->is_number()) {
      probe.unknown_count = count->get<double>();
    }
    members.Require(
        probe.unknown_count && *probe.unknown_count >= 0 && *probe.unknown_count <= 1,
        "\"unknown_count\" is " + count->dump() + "; expected \"max\" or a share from 0 to 1");
  }
  if (!members.status().ok()) return members.status();
  if (const auto optimizer = object->find("optimizer"); optimizer != object->end()) {
    probe.optimizer.emplace();
    if (Status status = ReadOptimizer(*optimizer, &*probe.optimizer); !status.ok()) return status;
  }
  return probe;
}

std::string FormatError(const Status& status, std::string_view op, std::string_view module) {
  static constexpr std::array<const char*, 6> kCodes = {"internal", "invalid_argument", "bad_input",
                                                        "unknown",  "unavailable",      "internal"};
  const json line = {{"error",
                      {{"code", kCodes.at(static_cast<std::size_t>(status.code()))},
                       {"message", status.message()},
                       {"operator", op},
                       {"module", module}}}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string_view ProtocolName(StepProtocol protocol) {
  return kProtocolNames.at(static_cast<std::size_t>(protocol));
}

}  // namespace memmodel::step
