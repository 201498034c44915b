// A RunAnswer as a person reads it, and as a program does: what `memmodel predict`
// prints, with what only a script has.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "memmodel/report.h"
#include "memmodel/run.h"

namespace memmodel {
namespace {

using nlohmann::ordered_json;

// The script's name: the first word that is a file of Python's, else the command.
std::string ScriptName(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    if (word.ends_with(".py")) return std::filesystem::path(word).filename().string();
  }
  const auto module = std::find(command.begin(), command.end(), "-m");
  if (command.end() - module > 1) return *(module + 1);  // python -m package.train
  return command.empty() ? "" : std::filesystem::path(command.front()).filename().string();
}

PredictOptions ForReport(const RunOptions& options) {
  PredictOptions report;
  report.job.model = ScriptName(options.command);
  report.job.alloc_conf = options.alloc_conf;
  report.device = options.device;
  report.total_bytes = options.total_bytes;
  report.target = options.target;
  report.allocator_limit = options.allocator_limit;
  report.steps = options.steps;
  return report;
}

// Lines of at most 78 columns, the first after `lead`.
std::string Wrapped(const std::string& lead, const std::string& text) {
  std::string out = lead, word;
  std::size_t column = lead.size();
  for (const char c : text + " ") {
    if (c != ' ') {
      word.push_back(c);
      continue;
    }
    if (column + word.size() + 1 > 78 && column > lead.size()) {
      out += "\n" + std::string(lead.size(), ' ');
      column = lead.size();
    }
    if (column > lead.size()) {
      out += " ";
      ++column;
    }
    out += word;
    column += word.size();
    word.clear();
  }
  return out + "\n";
}

std::string Line(const char* format, const std::string& first, const std::string& second,
                 const std::string& third, const std::string& fourth, const std::string& fifth) {
  char text[160];
  std::snprintf(text, sizeof text, format, first.c_str(), second.c_str(), third.c_str(),
                fourth.c_str(), fifth.c_str());
  return text;
}

std::string Ranks(const RunAnswer& answer) {
  constexpr const char* kFormat = "  %-6s%-8s%12s%12s%12s\n";
  std::string text = "\n" + Line(kFormat, "rank", "steps", "allocated", "reserved", "device");
  for (const RankMemory& rank : answer.ranks) {
    text += Line(kFormat, std::to_string(rank.rank), std::to_string(rank.steps_done),
                 FormatBytes(rank.peak.allocated), FormatBytes(rank.peak.reserved),
                 FormatBytes(rank.peak.device));
  }
  return text;
}

std::string Probes(const RunAnswer& answer) {
  constexpr const char* kFormat = "  %8s%13s%13s%9s  %s\n";
  std::string text = "\n" + Line(kFormat, "batch", "allocated", "device", "seconds", "");
  for (const BatchProbe& probe : answer.probes) {
    char seconds[16];
    std::snprintf(seconds, sizeof seconds, "%.1f", probe.seconds);
    text += Line(kFormat, std::to_string(probe.batch),
                 probe.peak ? FormatBytes(probe.peak->allocated) : "-",
                 probe.peak ? FormatBytes(probe.peak->device) : "-", seconds, probe.outcome);
  }
  return text;
}

ordered_json PeakJson(const Peak& peak) {
  return {{"allocated_bytes", peak.allocated},
          {"reserved_bytes", peak.reserved},
          {"device_bytes", peak.device}};
}

ordered_json RequestJson(const RunOptions& options, const RunAnswer& answer) {
  ordered_json request = {{"command", options.command},
                          {"gpu",
                           {{"name", options.device.name},
                            {"device_name", options.device.device_name},
                            {"total_bytes", options.total_bytes}}},
                          {"gpus", options.gpus},
                          {"target", options.target},
                          {"steps", options.steps},
                          {"find_batch", options.find_batch},
                          {"eager", options.eager}};
  if (options.allocator_limit) request["allocator_limit_bytes"] = *options.allocator_limit;
  if (!options.alloc_conf.empty()) request["alloc_conf"] = options.alloc_conf;
  request["assumptions"] = answer.prediction.assumptions;
  return request;
}

}  // namespace

std::string FormatRunTable(const RunOptions& options, const RunAnswer& answer) {
  std::string text = FormatTable(ForReport(options), answer.prediction);
  if (answer.ranks.size() > 1) text += Ranks(answer);
  if (!answer.probes.empty()) text += Probes(answer);
  if (!answer.notes.empty()) text += "\nNotes\n";
  for (const std::string& note : answer.notes) text += Wrapped("  - ", note);
  if (!answer.harmless.empty()) {
    text += "\nValues that only a real run computes, read without effect on memory\n";
    constexpr std::size_t kMost = 8;
    for (std::size_t i = 0; i < answer.harmless.size() && i < kMost; ++i) {
      text += Wrapped("  - ", answer.harmless[i].where + " (" + answer.harmless[i].reason + ")");
    }
    if (answer.harmless.size() > kMost) {
      text += "  - and " + std::to_string(answer.harmless.size() - kMost) +
              " more (--json lists them)\n";
    }
  }
  return text;
}

std::string FormatRunJson(const RunOptions& options, const RunAnswer& answer) {
  ordered_json object = ordered_json::parse(FormatJson(ForReport(options), answer.prediction));
  object["request"] = RequestJson(options, answer);
  object["steps_done"] = answer.steps_done;
  object["ranks"] = ordered_json::array();
  for (const RankMemory& rank : answer.ranks) {
    ordered_json item = {
        {"rank", rank.rank}, {"device", rank.device}, {"steps_done", rank.steps_done}};
    if (rank.batch) item["batch"] = *rank.batch;
    item["peak"] = PeakJson(rank.peak);
    item["retries"] = rank.retries;
    item["ooms"] = rank.ooms;
    object["ranks"].push_back(item);
  }
  if (options.find_batch) {
    object["probes"] = ordered_json::array();
    for (const BatchProbe& probe : answer.probes) {
      ordered_json item = {{"batch", probe.batch}, {"outcome", probe.outcome}};
      if (probe.peak) item["peak"] = PeakJson(*probe.peak);
      item["steps_done"] = probe.steps_done;
      item["seconds"] = probe.seconds;
      object["probes"].push_back(item);
    }
  }
  object["harmless_reads"] = ordered_json::array();
  for (const HarmlessRead& read : answer.harmless) {
    object["harmless_reads"].push_back(
        {{"where", read.where}, {"reason", read.reason}, {"count", read.count}});
  }
  object["notes"] = answer.notes;
  return object.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace memmodel
