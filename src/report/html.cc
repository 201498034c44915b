#include "src/report/html.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "memmodel/device.h"
#include "memmodel/report.h"
#include "src/core/atomic_file.h"
#include "src/report/html_timeline.h"

namespace memmodel {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 2500;  // more than a screen has columns

Json TimelineJson(const Timeline& timeline, const Trace& trace) {
  Json json = {{"step", timeline.step + 1},
               {"peak", timeline.peak},
               {"kinds", Json::array()},
               {"phases", Json::array()},
               {"points", Json::array()}};
  for (int k = 0; k < kMemoryKinds; ++k) {
    json["kinds"].push_back(Name(static_cast<MemoryKind>(k)));
  }
  for (std::size_t i = 0; i < timeline.points.size(); ++i) {
    const TimelinePoint& point = timeline.points[i];
    const Event& event = trace.events[point.event];
    const bool request = event.kind == EventKind::kAlloc;
    json["points"].push_back(
        {{"phase", point.phase == Phase::kNone ? "after the step" : PhaseName(point.phase)},
         {"what",
          (request ? "request of " : "release of ") + std::to_string(event.size) + " bytes"},
         {"op", trace.OperatorName(event.op)},
         {"layer", trace.ModulePath(event.module)},
         {"bytes", point.bytes}});
    Json& phases = json["phases"];
    const Json& name = json["points"].back()["phase"];
    if (phases.empty() || phases.back()["name"] != name) {
      phases.push_back({{"name", name}, {"from", i}, {"to", i + 1}});
    }
    phases.back()["to"] = i + 1;
  }
  return json;
}

Json LayersJson(const std::vector<LayerMemory>& layers) {
  Json json = Json::array();
  for (const LayerMemory& layer : layers) {
    json.push_back({{"path", layer.path},
                    {"type", layer.type},
                    {"weights", layer.weight_bytes},
                    {"activations", layer.activation_bytes},
                    {"per_sample", nullptr},
                    {"workspace", layer.workspace_bytes}});
    if (layer.activation_bytes_per_sample) {
      json.back()["per_sample"] = *layer.activation_bytes_per_sample;
    }
  }
  return json;
}

Json FiguresJson(const PredictOptions& options, const Prediction& prediction) {
  Json json = Json::array();
  if (prediction.batch) json.push_back({"batch", std::to_string(*prediction.batch)});
  if (prediction.peak) {
    json.push_back({"on the card (nvidia-smi)", prediction.peak->device});
    json.push_back({"reserved by PyTorch", prediction.peak->reserved});
    json.push_back({"allocated", prediction.peak->allocated});
  }
  if (prediction.largest_batch) {
    json.push_back({"largest batch within target", std::to_string(*prediction.largest_batch)});
  }
  if (prediction.largest_batch_before_oom) {
    json.push_back(
        {"largest before out of memory", std::to_string(*prediction.largest_batch_before_oom)});
  }
  json.push_back({options.device.device_name, options.total_bytes});
  return json;
}

std::string Provenance(const Prediction& prediction) {
  std::string text = "memmodel ";
  text.append(Version()).append(", torch ").append(prediction.torch_version);
  if (prediction.cudnn_version) {
    text.append(", cuDNN ").append(std::to_string(*prediction.cudnn_version));
  }
  if (!prediction.workspace_basis.empty()) {
    text.append(", workspaces ").append(prediction.workspace_basis);
  }
  return text;
}

// Inside <script> nothing may look like an end tag.
std::string Embeddable(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

void Fill(std::string* page, const std::string& mark, const std::string& text) {
  const std::size_t at = page->find(mark);
  if (at != std::string::npos) page->replace(at, mark.size(), text);
}

}  // namespace

Result<std::string> FormatHtml(const PredictOptions& options, const Prediction& prediction,
                               const Trace& trace, const HtmlExplanation& explanation) {
  const Result<std::string> data = DataFolder();
  if (!data.ok()) return data.status();
  Result<std::string> page = ReadFile(*data + "/html/page.html", 1 << 20);
  if (!page.ok()) return page.status();
  const Result<std::string> d3 = ReadFile(*data + "/html/d3.min.js", 1 << 20);
  if (!d3.ok()) return d3.status();
  const Result<Timeline> timeline = MakeTimeline(trace, options.job.alloc_conf, kMostPoints);
  if (!timeline.ok()) return timeline.status();

  const std::string title = std::filesystem::path(options.job.model).filename().string() + " on " +
                            options.device.device_name;
  std::vector<std::string> assumptions = options.assumptions;
  assumptions.insert(assumptions.end(), prediction.assumptions.begin(),
                     prediction.assumptions.end());
  if (prediction.interval && prediction.interval->low != prediction.interval->high) {
    assumptions.push_back(prediction.interval->basis + ": nvidia-smi may show " +
                          FormatBytes(prediction.interval->low) + " to " +
                          FormatBytes(prediction.interval->high));
  }
  Json json = {{"title", title},
               {"reason", prediction.reason},
               {"batch", prediction.batch.value_or(0)},
               {"figures", FiguresJson(options, prediction)},
               {"sentences", explanation.sentences},
               {"timeline", TimelineJson(*timeline, trace)},
               {"curve", Json::array()},
               {"total", options.total_bytes},
               {"target", options.target},
               {"largest", prediction.largest_batch.value_or(0)},
               {"layers", Json::array()},
               {"suggestions", Json::array()},
               {"assumptions", assumptions},
               {"provenance", Provenance(prediction)}};
  for (const CurvePoint& point : prediction.curve) {
    json["curve"].push_back({{"batch", point.batch},
                             {"allocated", point.peak.allocated},
                             {"reserved", point.peak.reserved},
                             {"device", point.peak.device}});
  }
  if (prediction.use) json["layers"] = LayersJson(prediction.use->layers);
  for (const HtmlExplanation::Suggestion& s : explanation.suggestions) {
    json["suggestions"].push_back({{"change", s.change},
                                   {"saves", s.saves},
                                   {"largest_batch", nullptr},
                                   {"simulated", s.simulated}});
    if (s.largest_batch) json["suggestions"].back()["largest_batch"] = *s.largest_batch;
  }
  // The data last: what a model's names may hold is not looked at for marks.
  Fill(&*page, "@TITLE@", Escaped(title));
  Fill(&*page, "@D3@", *d3);
  Fill(&*page, "@DATA@", Embeddable(json));
  return *std::move(page);
}

}  // namespace memmodel
