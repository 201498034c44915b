// What a block is follows from its whole life: from the tag that it got at any
// time of it, from the phase in which it was made and from when and where it was
// freed. A convolution's output, for example, is made in forward and freed in
// backward: an activation. The workspace that cuDNN got for it is made and freed
// inside aten::cudnn_convolution: a workspace. The gradient of the next layer's
// input is made and freed within backward: a temporary.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "memmodel/breakdown.h"
#include "src/classify/lives.h"
#include "src/classify/owner.h"

namespace memmodel {
namespace {

constexpr std::array<std::string_view, kMemoryKinds> kKindNames = {
    "weights",   "gradients",   "optimizer_state", "activations",
    "workspace", "temporaries", "inputs",          "library_workspace"};

bool InsideOneOperator(const Life& life) {
  return life.freed != Life::kNever && life.made_in != OperatorId::kNone &&
         life.made_in == life.freed_in;
}

bool LiveAt(const Life& life, std::uint32_t event) {
  return life.made <= event && event < life.freed;
}

// Layers by path, in the order in which they first occur.
class Layers {
 public:
  explicit Layers(const Trace& trace) : trace_(trace) {
    for (const ModuleInfo& module : trace.modules) At(module.path).type = module.type;
  }

  LayerMemory& At(std::string_view path) {
    const auto [it, is_new] = index_.try_emplace(std::string(path), all_.size());
    if (is_new) all_.push_back({std::string(path)});
    return all_[it->second];
  }

  // The module that owns the parameter "layer1.0.conv1.weight".
  LayerMemory& OwnerOf(TextId parameter) {
    return At(memmodel::OwnerOf(trace_.modules, trace_.Text(parameter)));
  }

  std::vector<LayerMemory> Take() {
    std::erase_if(all_, [](const LayerMemory& layer) {
      return layer.weight_bytes == 0 && layer.activation_bytes == 0 && layer.workspace_bytes == 0;
    });
    return std::move(all_);
  }

 private:
  const Trace& trace_;
  std::map<std::string, std::size_t> index_;
  std::vector<LayerMemory> all_;
};

std::vector<LayerMemory> LayersOf(const Trace& trace, const History& history, int step) {
  Layers layers(trace);
  // Workspaces begin and end: (event, module, change), in the order of events.
  struct Change {
    std::uint32_t event;
    ModuleId module;
    Bytes bytes;
  };
  std::vector<Change> changes;
  for (const Life& life : history.lives) {
    const MemoryKind kind = KindOf(life);
    if (kind == MemoryKind::kWeights && life.role != TensorRole::kNone) {
      layers.OwnerOf(life.name).weight_bytes += life.bytes;
    } else if (kind == MemoryKind::kActivations && life.step == step) {
      layers.At(trace.ModulePath(life.module)).activation_bytes += life.bytes;
    } else if (kind == MemoryKind::kWorkspace) {
      changes.push_back({life.made, life.module, life.bytes});
      changes.push_back({life.freed, life.module, -life.bytes});
    }
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.event < b.event; });
  std::map<ModuleId, Bytes> now;
  for (const Change& change : changes) {
    const Bytes bytes = now[change.module] += change.bytes;
    LayerMemory& layer = layers.At(trace.ModulePath(change.module));
    layer.workspace_bytes = std::max(layer.workspace_bytes, bytes);
  }
  return layers.Take();
}

}  // namespace

MemoryKind KindOf(const Life& life) {
  switch (life.role) {
    case TensorRole::kWeight:
    case TensorRole::kBuffer: return MemoryKind::kWeights;
    case TensorRole::kGradient: return MemoryKind::kGradients;
    case TensorRole::kOptimizerState: return MemoryKind::kOptimizerState;
    case TensorRole::kInput: return MemoryKind::kInputs;
    case TensorRole::kLibraryWorkspace: return MemoryKind::kLibraryWorkspace;
    case TensorRole::kOutput:
    case TensorRole::kLoss: return MemoryKind::kActivations;
    case TensorRole::kNone: break;
  }
  // The model's constants are moved to the device with its weights.
  if (life.phase == Phase::kLoad) return MemoryKind::kWeights;
  if (life.phase == Phase::kForward && life.freed > life.forward_end) {
    return MemoryKind::kActivations;
  }
  return InsideOneOperator(life) ? MemoryKind::kWorkspace : MemoryKind::kTemporaries;
}

std::string_view Name(MemoryKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

Result<MemoryUse> Classify(const Trace& trace, const ClassifyOptions& options) {
  Result<History> history = FollowBlocks(trace, options);
  if (!history.ok()) return history.status();
  MemoryUse use;
  Breakdown& breakdown = use.breakdown;
  breakdown.allocated_peak = history->allocated_peak;
  breakdown.reserved_peak = history->reserved_peak;
  for (const Life& life : history->lives) {
    if (LiveAt(life, history->peak_event)) {
      breakdown.bytes[static_cast<int>(KindOf(life))] += life.bytes;
    }
    if (life.made == history->peak_event) {
      breakdown.step = life.step;
      breakdown.phase = life.phase;
      breakdown.op = trace.OperatorName(life.made_in);
      breakdown.module = trace.ModulePath(life.module);
    }
  }
  use.layers = LayersOf(trace, *history, breakdown.step);
  use.phases = std::move(history->phases);
  return use;
}

void AddPerSample(std::vector<LayerMemory>* layers, std::int64_t batch,
                  const std::vector<LayerMemory>& other, std::int64_t other_batch) {
  if (batch == other_batch) return;
  std::map<std::string_view, const LayerMemory*> by_path;
  for (const LayerMemory& layer : other) by_path[layer.path] = &layer;
  for (LayerMemory& layer : *layers) {
    const auto found = by_path.find(layer.path);
    const Bytes there = found == by_path.end() ? 0 : found->second->activation_bytes;
    layer.activation_bytes_per_sample = static_cast<double>(layer.activation_bytes - there) /
                                        static_cast<double>(batch - other_batch);
  }
}

}  // namespace memmodel
