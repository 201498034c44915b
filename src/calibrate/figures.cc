#include "src/calibrate/figures.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "src/child/protocol.h"
#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kLargestFile = std::size_t{1} << 20;
constexpr const char* kContextSteps[] = {"primary_bytes", "first_kernel_bytes",
                                         "cublas_handle_bytes", "cudnn_handle_bytes",
                                         "system_bytes"};

// "NVIDIA GeForce RTX 4090" -> "rtx4090".
std::string NameOf(const std::string& device_name) {
  std::string name, word;
  const auto add = [&] {
    if (word != "nvidia" && word != "geforce") name += word;
    word.clear();
  };
  for (const char c : device_name) {
    const auto u = static_cast<unsigned char>(c);
    if (c == ' ') {
      add();
    } else if (std::isalnum(u) != 0) {
      word += static_cast<char>(std::tolower(u));
    }
  }
  add();
  return name.empty() ? "gpu" : name;
}

// The whole file of a device of the catalogue; empty if it cannot be read.
json FileOf(const Device* device) {
  if (device == nullptr) return json::object();
  const Result<std::string> text = ReadFile(device->path, kLargestFile);
  json file = text.ok() ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
  return file.is_object() ? file : json::object();
}

json SourcesOf(const json& file, std::string_view prefix) {
  json kept = json::array();
  for (const json& source : file.value("sources", json::array())) {
    json fields = json::array();
    for (const json& field : source.at("fields")) {
      if (field.get<std::string>().starts_with(prefix)) fields.push_back(field);
    }
    if (!fields.empty()) {
      kept.push_back(
          {{"fields", fields}, {"kind", source.at("kind")}, {"source", source.at("source")}});
    }
  }
  return kept;
}

}  // namespace

std::string FormatCalibrationRequest(DeviceKind device, bool figures,
                                     const std::vector<std::string>& plans,
                                     const std::vector<std::string>& operators) {
  ordered_json request = {
      {"calibrate", 1}, {"device", Name(device)}, {"figures", figures}, {"plans", plans}};
  if (!operators.empty()) request["operators"] = operators;
  return request.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<CalibrationAnswer> ParseCalibrationAnswer(std::string_view line, std::size_t plans,
                                                 std::size_t operators) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_object() && object.contains("error")) {
    Result<ChildLine> error = ParseChildLine(line);
    return error.ok() ? Status::Unavailable("the child gave no figures") : error.status();
  }
  try {
    CalibrationAnswer answer;
    answer.figures = object.value("figures", json());
    answer.cudnn_version = object.at("cudnn_version").get<std::int64_t>();
    for (const json& plan : object.at("plans")) {
      answer.plans.emplace_back(plan.at(0).get<std::int64_t>(), plan.at(1).get<std::int64_t>());
    }
    for (const json& bytes : object.value("operators", json::array())) {
      answer.operators.push_back(bytes.is_null() ? std::nullopt
                                                 : std::optional(bytes.get<std::vector<Bytes>>()));
    }
    if (answer.plans.size() == plans && answer.operators.size() == operators) return answer;
  } catch (const json::exception&) {
  }
  return Status::Unavailable("the child that asks the GPU answered nonsense");
}

Result<std::string> DeviceFileText(const json& figures, const Device* known,
                                   const std::string& name) {
  try {
    const auto device_name = figures.at("device_name").get<std::string>();
    const json file = FileOf(known);
    const std::string source = "memmodel calibrate on " + device_name + ", driver " +
                               figures.value("driver_version", "not known") + ", torch " +
                               figures.value("torch_version", "") + ", cuDNN " +
                               std::to_string(figures.value("cudnn_version", 0));
    json measured = {"memory.*", "cuda.*"};
    ordered_json device = {
        {"schema_version", 1},
        {"name", !name.empty()      ? name
                 : known != nullptr ? known->name
                                    : NameOf(device_name)},
        {"device_name", device_name},
        {"aliases", known != nullptr ? known->aliases : std::vector<std::string>()},
        {"provenance", "measured"}};
    device["memory"]["total_bytes"] = figures.at("total_bytes");
    if (known != nullptr) device["memory"]["sold_gb"] = known->memory_gb;
    json sources = json::array();
    const json steps = figures.value("context", json::object());
    const bool context = std::all_of(std::begin(kContextSteps), std::end(kContextSteps),
                                     [&](const char* key) { return steps.contains(key); });
    if (context) {
      device["context"] = steps;
      device["context"]["base_bytes"] =
          steps.at("primary_bytes").get<Bytes>() + steps.at("first_kernel_bytes").get<Bytes>();
      for (const char* key : {"below_bytes", "above_bytes"}) {
        if (file.contains("context") && file["context"].contains(key)) {
          device["context"][key] = file["context"][key];
        }
      }
      for (const char* key : {"context.below_bytes", "context.above_bytes"}) {
        for (const json& kept : SourcesOf(file, key)) sources.push_back(kept);
      }
      measured.push_back("context.*");
    } else if (file.contains("context")) {
      device["context"] = file["context"];
      for (const json& kept : SourcesOf(file, "context.")) sources.push_back(kept);
    } else {
      return Status::Unavailable(
          "what a context takes could not be measured: NVML does not list this process (in a "
          "container, give it the host's process numbers), and the catalogue does not know " +
          device_name);
    }
    if (figures.contains("max_active_clusters")) {
      device["occupancy"]["max_active_clusters"] = figures["max_active_clusters"];
      measured.push_back("occupancy.*");
    } else if (file.contains("occupancy")) {
      device["occupancy"] = file["occupancy"];
      for (const json& kept : SourcesOf(file, "occupancy.")) sources.push_back(kept);
    }
    device["cuda"] = figures.at("cuda");
    sources.push_back({{"fields", measured}, {"kind", "measured"}, {"source", source}});
    device["sources"] = sources;
    return device.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  } catch (const json::exception& error) {
    return Status::Unavailable(std::string("the child's figures lack something: ") + error.what());
  }
}

Result<std::string> WithContextRange(const std::string& text, Bytes below, Bytes above,
                                     const std::string& source) {
  try {
    ordered_json device = ordered_json::parse(text);
    const auto widen = [&](const char* key, Bytes measured) {
      ordered_json& figure = device["context"][key];
      const Bytes before = figure.is_number_integer() ? figure.get<Bytes>() : 0;
      figure = std::max(before, measured);
      return measured > before;
    };
    const bool lower = widen("below_bytes", below);
    const bool higher = widen("above_bytes", above);
    if (lower || higher) {
      ordered_json entry = ordered_json::object();
      entry["fields"] = {"context.below_bytes", "context.above_bytes"};
      entry["kind"] = "measured";
      entry["source"] = source;
      ordered_json sources = ordered_json::array();
      sources.push_back(entry);
      for (const ordered_json& kept : device["sources"]) sources.push_back(kept);
      device["sources"] = sources;
    }
    return device.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  } catch (const json::exception& error) {
    return Status::Internal(std::string("the device file cannot be changed: ") + error.what());
  }
}

}  // namespace memmodel
