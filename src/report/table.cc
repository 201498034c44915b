// The table that `memmodel predict` prints.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "memmodel/report.h"
#include "src/report/text.h"

namespace memmodel {
namespace {

constexpr std::size_t kHeaviestLayers = 3;
constexpr std::size_t kBarColumns = 24;

std::string FileName(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string Percent(Bytes part, Bytes total) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%",
                100 * static_cast<double>(part) / static_cast<double>(total));
  return text;
}

std::string Headline(const PredictOptions& options, const Prediction& prediction) {
  const std::string file = FileName(options.job.model);
  switch (prediction.verdict) {
    case Verdict::kUnknown: return "UNKNOWN: " + file;
    case Verdict::kDoesNotFit: return "DOES NOT FIT: " + file;
    case Verdict::kFits: break;
  }
  if (prediction.largest_batch) {
    return "FITS: " + file + ", largest batch " + std::to_string(*prediction.largest_batch);
  }
  if (!prediction.batch) return "FITS: " + file;  // a script without a model that memmodel saw
  return "FITS: " + file + ", batch " + std::to_string(*prediction.batch);
}

std::string Row(std::string_view name, std::string_view value, std::string_view note) {
  std::string row = "  " + PadRight(name, 34) + PadLeft(value, 11);
  if (!note.empty()) row += "  " + std::string(note);
  return row + "\n";
}

std::string Figures(const PredictOptions& options, const Prediction& prediction) {
  std::string text;
  if (prediction.peak) {
    text += prediction.batch ? "At batch " + std::to_string(*prediction.batch) : "At the peak";
    text += "\n";
    text += Row("nvidia-smi will show", FormatBytes(prediction.peak->device),
                Percent(prediction.peak->device, options.total_bytes) + " of " +
                    FormatBytes(options.total_bytes));
    text += Row("PyTorch reserves", FormatBytes(prediction.peak->reserved), "");
    text += Row("PyTorch allocates", FormatBytes(prediction.peak->allocated), "");
  }
  if (prediction.largest_batch) {
    if (!text.empty()) text += "\n";
    text += "Largest batch\n";
    char target[64];
    std::snprintf(target, sizeof target, "%g %% of the card", 100 * options.target);
    text += Row("within the target", std::to_string(*prediction.largest_batch), target);
  }
  if (prediction.largest_batch_before_oom) {
    text += Row("before out of memory",
                std::to_string(*prediction.largest_batch_before_oom),
                "no room for anything else");
  }
  return text;
}

std::string_view Words(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kWeights: return "weights";
    case MemoryKind::kGradients: return "gradients";
    case MemoryKind::kOptimizerState: return "optimizer state";
    case MemoryKind::kActivations: return "activations";
    case MemoryKind::kWorkspace: return "workspace";
    case MemoryKind::kTemporaries: return "temporaries";
    case MemoryKind::kInputs: return "batch and target";
    case MemoryKind::kLibraryWorkspace: return "cuBLAS workspace";
  }
  return "";
}

std::string WhereItGoes(const Prediction& prediction) {
  const Breakdown& breakdown = prediction.use->breakdown;
  struct Part {
    std::string_view name;
    Bytes bytes;
  };
  std::vector<Part> parts;
  for (int i = 0; i < kMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    parts.push_back({Words(kind), breakdown.of(kind)});
  }
  parts.push_back({"reserved, not in use", breakdown.fragmentation()});
  parts.push_back({"CUDA context", *prediction.context});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.bytes > b.bytes; });

  std::string text = "\nWhere it goes at the peak\n";
  const Bytes total = prediction.peak->device;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    const double share = static_cast<double>(part.bytes) / static_cast<double>(total);
    const auto bar = static_cast<std::size_t>(std::lround(share * kBarColumns));
    text += "  " + PadRight(part.name, 22) + PadLeft(FormatBytes(part.bytes), 11) +
            PadLeft(Percent(part.bytes, total), 9);
    if (bar > 0) text += "  " + std::string(bar, '#');
    text += "\n";
  }
  text += "  " + PadRight("sum", 22) + PadLeft(FormatBytes(total), 11) + "\n";
  if (breakdown.step >= 0) {
    std::string where = "the peak stands in step " + std::to_string(breakdown.step + 1) + ", " +
                        std::string(PhaseName(breakdown.phase));
    if (!breakdown.op.empty()) where += ", " + breakdown.op;
    if (!breakdown.module.empty()) where += " of " + breakdown.module;
    text += Wrap("  ", where);
  }
  return text;
}

// The end of a path says most, and the type only if there is room for it.
std::string LayerName(const LayerMemory& layer, std::size_t columns) {
  std::string name = layer.path;
  if (name.size() > columns) return "..." + name.substr(name.size() - (columns - 3));
  const std::string type = " (" + layer.type + ")";
  if (!layer.type.empty() && name.size() + type.size() <= columns) name += type;
  return name;
}

std::string Heaviest(const Prediction& prediction) {
  std::vector<const LayerMemory*> layers;
  for (const LayerMemory& layer : prediction.use->layers) {
    if (!layer.path.empty()) layers.push_back(&layer);
  }
  if (layers.empty()) return "";
  const auto total = [](const LayerMemory* layer) {
    return layer->weight_bytes + layer->activation_bytes + layer->workspace_bytes;
  };
  std::stable_sort(layers.begin(), layers.end(), [&](const auto* a, const auto* b) {
    return total(a) > total(b);
  });
  layers.resize(std::min(layers.size(), kHeaviestLayers));
  std::string text = "\n";
  text += PadRight("Heaviest layers", 35) + PadLeft("weights", 11) + PadLeft("activations", 13) +
          PadLeft("a sample", 10) + PadLeft("workspace", 11) + "\n";
  for (const LayerMemory* layer : layers) {
    text += "  " + PadRight(LayerName(*layer, 33), 33) + PadLeft(FormatBytes(layer->weight_bytes), 11) +
            PadLeft(FormatBytes(layer->activation_bytes), 13) +
            PadLeft(layer->activation_bytes_per_sample
                        ? FormatBytes(std::llround(*layer->activation_bytes_per_sample))
                        : "-",
                    10) +
            PadLeft(FormatBytes(layer->workspace_bytes), 11) + "\n";
  }
  return text;
}

std::string Assumptions(const PredictOptions& options, const Prediction& prediction) {
  std::vector<std::string> all = options.assumptions;
  all.insert(all.end(), prediction.assumptions.begin(), prediction.assumptions.end());
  if (prediction.interval && prediction.interval->low != prediction.interval->high) {
    all.push_back(prediction.interval->basis + ": nvidia-smi may show " +
                  FormatBytes(prediction.interval->low) + " to " +
                  FormatBytes(prediction.interval->high));
  }
  if (all.empty()) return "";
  std::string text = "\nAssumed\n";
  for (const std::string& assumption : all) text += Wrap("  - ", assumption);
  return text;
}

}  // namespace

std::string FormatTable(const PredictOptions& options, const Prediction& prediction) {
  std::string text = Headline(options, prediction) + "\n";
  text += Wrap("  ", prediction.reason);
  const std::string figures = Figures(options, prediction);
  if (!figures.empty()) text += "\n" + figures;
  if (prediction.use && prediction.context) {
    text += WhereItGoes(prediction);
    text += Heaviest(prediction);
  }
  text += Assumptions(options, prediction);
  if (!prediction.unknown.empty()) {
    text += "\nUnknown without a real run\n";
    for (const UnknownValue& value : prediction.unknown) {
      text += Wrap("  - ", value.op + (value.module.empty() ? "" : " in " + value.module));
    }
  }
  return text;
}

}  // namespace memmodel
