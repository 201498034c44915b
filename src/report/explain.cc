#include "src/report/explain.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/report/text.h"

namespace memmodel {
namespace {

using Json = nlohmann::ordered_json;

std::string Shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : "..." + text.substr(text.size() - (width - 3));
}

void AppendSuggestion(const Suggestion& s, std::string* out) {
  std::string text = s.change + ": ";
  if (!s.failure.empty()) {
    text += "not tried, " + s.failure;
  } else if (s.saves > 0) {
    text += "saves " + FormatBytes(s.saves);
  } else if (s.saves == 0) {
    text += "saves nothing";
  } else {
    text += "saves nothing, it costs " + FormatBytes(-s.saves);
  }
  if (s.largest_batch) text += "; largest batch " + std::to_string(*s.largest_batch);
  if (!s.note.empty()) text += " (" + s.note + ")";
  *out += Wrap("- ", text + ".");
}

}  // namespace

std::string FormatExplanation(const Explanation& explanation, std::size_t groups) {
  std::string out;
  for (const std::string& sentence : explanation.sentences) out += Wrap("", sentence);
  char line[200];
  std::snprintf(line, sizeof line, "\n%-34s %12s %14s %14s\n", "block or layer", "constant",
                "activations", "per sample");
  out += line;
  std::size_t shown = 0;
  for (const GroupMemory& g : explanation.groups) {
    if (shown++ == groups) break;
    const Bytes activations = g.activations.alpha + g.activations.beta * explanation.batch;
    std::snprintf(line, sizeof line, "%-34s %12s %14s %14s\n",
                  Shortened(g.path.empty() ? "(the model itself)" : g.path, 34).c_str(),
                  FormatBytes(g.constant).c_str(), FormatBytes(activations).c_str(),
                  FormatBytes(g.activations.beta).c_str());
    out += line;
  }
  if (explanation.groups.size() > groups) {
    out += "and " + std::to_string(explanation.groups.size() - groups) + " more (--json has all)\n";
  }
  if (explanation.suggestions.empty()) return out;
  out += "\nWhat would lower it at batch " + std::to_string(explanation.batch) + ":\n";
  for (const Suggestion& s : explanation.suggestions) AppendSuggestion(s, &out);
  return out;
}

std::string ExplanationToJson(const Explanation& explanation) {
  Json json = {{"schema_version", 1},
               {"batch", explanation.batch},
               {"sentences", explanation.sentences},
               {"groups", Json::array()},
               {"suggestions", Json::array()}};
  for (const GroupMemory& g : explanation.groups) {
    json["groups"].push_back({{"path", g.path},
                              {"constant_bytes", g.constant},
                              {"activation_bytes_constant", g.activations.alpha},
                              {"activation_bytes_per_sample", g.activations.beta}});
  }
  for (const Suggestion& s : explanation.suggestions) {
    if (!s.failure.empty()) {
      json["suggestions"].push_back({{"change", s.change}, {"failure", s.failure}});
      continue;
    }
    json["suggestions"].push_back({{"change", s.change},
                                   {"saves_bytes", s.saves},
                                   {"how", s.simulated ? "simulated" : "run"}});
    if (s.largest_batch) json["suggestions"].back()["largest_batch"] = *s.largest_batch;
    if (!s.note.empty()) json["suggestions"].back()["note"] = s.note;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

HtmlExplanation ForHtml(const Explanation& explanation) {
  HtmlExplanation html;
  html.sentences = explanation.sentences;
  for (const Suggestion& s : explanation.suggestions) {
    if (!s.failure.empty()) continue;
    html.suggestions.push_back({s.change, s.saves, s.largest_batch, s.simulated});
  }
  return html;
}

}  // namespace memmodel
