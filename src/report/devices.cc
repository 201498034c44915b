// The GPU catalogue as `memmodel devices` shows it.
#include <nlohmann/json.hpp>

#include "memmodel/report.h"
#include "src/report/text.h"

namespace memmodel {
namespace {

std::string Capability(const Device& device) {
  return std::to_string(device.major) + "." + std::to_string(device.minor);
}

}  // namespace

std::string_view Version() { return MEMMODEL_VERSION; }

std::string FormatDevices(const DeviceCatalogue& catalogue) {
  std::string text = PadRight("name", 16) + PadRight("GPU", 29) + PadLeft("memory", 11) +
                     PadLeft("SMs", 5) + PadLeft("sm", 5) + "  figures\n";
  bool has_unsupported = false;
  for (const Device& device : catalogue.devices()) {
    text += PadRight(device.name, 16) + PadRight(device.device_name, 29) +
            PadLeft(FormatBytes(device.total_bytes), 11) +
            PadLeft(std::to_string(device.multiprocessors), 5) + PadLeft(Capability(device), 5) +
            "  " + device.provenance + (device.unsupported.empty() ? "" : " *") + "\n";
    has_unsupported = has_unsupported || !device.unsupported.empty();
  }
  if (has_unsupported) {
    text += "* not supported by the torch that memmodel runs: memmodel devices NAME says more\n";
  }
  text += "memmodel devices NAME says where each figure comes from.\n";
  return text;
}

std::string FormatDevice(const Device& device) {
  std::string text = device.name + ": " + device.device_name + "\n";
  const auto row = [&](std::string_view name, const std::string& value, std::string_view field) {
    text += "  " + PadRight(name, 26) + PadRight(value, 24) +
            std::string(device.SourceKind(field)) + "\n";
  };
  row("memory", std::to_string(device.total_bytes) + " B", "memory.total_bytes");
  row("", FormatBytes(device.total_bytes), "memory.total_bytes");
  row("compute capability", Capability(device), "cuda.major");
  row("multiprocessors", std::to_string(device.multiprocessors), "cuda.multiProcessorCount");
  row("L2 cache", FormatBytes(device.l2_bytes), "cuda.l2CacheSize");
  row("context", FormatBytes(device.context.base), "context.base_bytes");
  if (device.context.cublas_handle) {
    row("  a cuBLAS handle", FormatBytes(*device.context.cublas_handle),
        "context.cublas_handle_bytes");
  }
  if (device.context.cudnn_handle) {
    row("  a cuDNN handle", FormatBytes(*device.context.cudnn_handle),
        "context.cudnn_handle_bytes");
  }
  if (!device.aliases.empty()) {
    std::string aliases;
    for (const std::string& alias : device.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
    text += Wrap("  also called: ", aliases);
  }
  if (!device.unsupported.empty()) text += Wrap("  not supported: ", device.unsupported);
  text += "Sources\n";
  for (const FigureSource& source : device.sources) {
    std::string fields;
    for (const std::string& field : source.fields) fields += (fields.empty() ? "" : " ") + field;
    text += Wrap("  - ", source.kind + ": " + source.source);
    text += Wrap("      ", fields);
  }
  text += "File: " + device.path + "\n";
  return text;
}

std::string FormatDevicesJson(const std::vector<Device>& devices) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const Device& device : devices) {
    ordered_json item = {{"name", device.name},
                         {"device_name", device.device_name},
                         {"aliases", device.aliases},
                         {"provenance", device.provenance},
                         {"total_bytes", device.total_bytes},
                         {"compute_capability", Capability(device)},
                         {"multiprocessors", device.multiprocessors},
                         {"l2_bytes", device.l2_bytes},
                         {"supported", device.unsupported.empty()}};
    if (!device.unsupported.empty()) item["unsupported_reason"] = device.unsupported;
    ordered_json context = {{"base_bytes", device.context.base}};
    if (device.context.cublas_handle) context["cublas_handle_bytes"] = *device.context.cublas_handle;
    if (device.context.cudnn_handle) context["cudnn_handle_bytes"] = *device.context.cudnn_handle;
    item["context"] = context;
    item["sources"] = ordered_json::array();
    for (const FigureSource& source : device.sources) {
      item["sources"].push_back(
          {{"fields", source.fields}, {"kind", source.kind}, {"source", source.source}});
    }
    list.push_back(item);
  }
  const ordered_json object = {{"schema_version", 1}, {"devices", list}};
  return object.dump(2) + "\n";
}

}  // namespace memmodel
