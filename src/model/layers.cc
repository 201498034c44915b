#include "src/model/layers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "src/fit/workspace.h"

namespace memmodel {
namespace {

struct Place {
  int part = 0;  // 0: load; 1: the first step
  Phase phase = Phase::kNone;
  std::int32_t forward = -1;  // number of the forward pass it lies in
};

// Where each event stands.
std::vector<Place> PlacesOf(const Program& program) {
  std::vector<Place> places(program.events.size());
  Place now;
  std::int32_t forwards = 0;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const ProgramEvent& event = program.events[i];
    if (event.kind == EventKind::kMarker) {
      const std::string& text = program.texts[static_cast<std::size_t>(event.target)];
      const bool step = text.starts_with(marker::kStepPrefix);
      now.part += step ? 1 : 0;
      now.phase = PhaseAfter(text, now.phase);
      if (step || text == marker::kMicroBatch) now.forward = forwards++;
      if (now.phase != Phase::kForward) now.forward = -1;
    }
    places[i] = now;
  }
  return places;
}

std::vector<std::int32_t> ReleasesOf(const Program& program) {
  std::vector<std::int32_t> release(program.events.size(), -1);
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    if (program.events[i].kind == EventKind::kFree) {
      release[static_cast<std::size_t>(program.events[i].target)] = static_cast<std::int32_t>(i);
    }
  }
  return release;
}

MemoryKind KindOf(const ProgramEvent& event, const Place& made, const ProgramEvent* release,
                  const Place* freed) {
  switch (event.role) {
    case TensorRole::kWeight:
    case TensorRole::kBuffer:
      return MemoryKind::kWeights;
    case TensorRole::kGradient:
      return MemoryKind::kGradients;
    case TensorRole::kOptimizerState:
      return MemoryKind::kOptimizerState;
    case TensorRole::kInput:
      return MemoryKind::kInputs;
    case TensorRole::kLibraryWorkspace:
      return MemoryKind::kLibraryWorkspace;
    case TensorRole::kOutput:
    case TensorRole::kLoss:
      return MemoryKind::kActivations;
    case TensorRole::kNone:
      break;
  }
  if (made.phase == Phase::kLoad || made.part == 0) return MemoryKind::kWeights;
  if (made.phase == Phase::kForward && (freed == nullptr || freed->forward != made.forward)) {
    return MemoryKind::kActivations;
  }
  const bool inside = release != nullptr && event.op >= 0 && event.op == release->op;
  return inside ? MemoryKind::kWorkspace : MemoryKind::kTemporaries;
}

// Sums by traced batch.
using Samples = std::vector<Bytes>;

struct LayerSums {
  Samples weights, gradients, state, activations, workspace, workspace_now;
};

std::vector<BatchBytes> Points(const Program& program, const Samples& samples) {
  std::vector<BatchBytes> points;
  for (std::size_t s = 0; s < samples.size(); ++s) {
    points.push_back({program.batches[s], samples[s]});
  }
  return points;
}

// alpha + beta * b: exact where a line with integer coefficients passes through
// all points, else by least squares.
bool FitAffine(const std::vector<BatchBytes>& points, AffineBytes* line) {
  const SizeRule rule = FitSizeRule(points);
  if (rule.kind == SizeRule::Kind::kConstant || rule.kind == SizeRule::Kind::kAffine) {
    *line = {rule.c0, rule.c1};
    return true;
  }
  double b = 0, y = 0, bb = 0, by = 0;
  const auto n = static_cast<double>(points.size());
  for (const BatchBytes& p : points) {
    const auto batch = static_cast<double>(p.batch), bytes = static_cast<double>(p.bytes);
    b += batch;
    y += bytes;
    bb += batch * batch;
    by += batch * bytes;
  }
  const double slope = (n * by - b * y) / (n * bb - b * b);
  *line = {static_cast<Bytes>((y - slope * b) / n), static_cast<Bytes>(slope)};
  return false;
}

class LayerBuilder {
 public:
  explicit LayerBuilder(const Program& program)
      : program_(program), kinds_(KindsOf(program)), places_(PlacesOf(program)) {
    for (const Place& place : places_) last_part_ = std::max(last_part_, place.part);
  }

  std::vector<LayerModel> Run() {
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      const ProgramEvent& event = program_.events[i];
      if (event.kind == EventKind::kAlloc) Allocate(i);
      if (event.kind == EventKind::kFree)
        Release(static_cast<std::size_t>(event.target), event.mask);
    }
    std::vector<LayerModel> layers;
    for (auto& [module, sums] : sums_) layers.push_back(Layer(module, sums));
    return layers;
  }

 private:
  template <typename Function>
  void ForEachSample(SampleMask mask, std::size_t alloc, Function&& function) {
    const SizeRule& rule = program_.rules[static_cast<std::size_t>(program_.events[alloc].target)];
    for (std::size_t s = 0; s < program_.batches.size(); ++s) {
      if ((mask >> s) & 1) function(s, RoundToBlock(rule.At(program_.batches[s])));
    }
  }

  LayerSums& SumsOf(std::int32_t module) {
    const auto [it, added] = sums_.try_emplace(module);
    if (added) {
      const Samples zero(program_.batches.size(), 0);
      it->second = {zero, zero, zero, zero, zero, zero};
    }
    return it->second;
  }

  void Allocate(std::size_t i) {
    const ProgramEvent& event = program_.events[i];
    const bool last = places_[i].part == last_part_;
    LayerSums& sums = SumsOf(event.module);
    Samples* into = nullptr;
    switch (kinds_[i]) {
      case MemoryKind::kWeights:
        into = &sums.weights;
        break;
      case MemoryKind::kOptimizerState:
        into = &sums.state;
        break;
      case MemoryKind::kGradients:
        into = last ? &sums.gradients : nullptr;
        break;
      case MemoryKind::kActivations:
        into = last ? &sums.activations : nullptr;
        break;
      case MemoryKind::kWorkspace:
        into = last ? &sums.workspace_now : nullptr;
        break;
      default:
        break;
    }
    if (into == nullptr) return;
    if (kinds_[i] == MemoryKind::kActivations) {
      // As requested: rounding would hide that they are exact lines.
      const SizeRule& rule = program_.rules[static_cast<std::size_t>(event.target)];
      for (std::size_t s = 0; s < program_.batches.size(); ++s) {
        if ((event.mask >> s) & 1) (*into)[s] += rule.At(program_.batches[s]);
      }
      return;
    }
    ForEachSample(event.mask, i, [&](std::size_t s, Bytes bytes) {
      (*into)[s] += bytes;
      sums.workspace[s] = std::max(sums.workspace[s], sums.workspace_now[s]);
    });
  }

  void Release(std::size_t alloc, SampleMask mask) {
    if (kinds_[alloc] != MemoryKind::kWorkspace || places_[alloc].part != last_part_) return;
    LayerSums& sums = SumsOf(program_.events[alloc].module);
    ForEachSample(mask, alloc, [&](std::size_t s, Bytes bytes) { sums.workspace_now[s] -= bytes; });
  }

  LayerModel Layer(std::int32_t module, const LayerSums& sums) const {
    LayerModel layer;
    if (module >= 0) {
      layer.path = program_.modules[static_cast<std::size_t>(module)].path;
      layer.type = program_.modules[static_cast<std::size_t>(module)].type;
    }
    layer.weights = sums.weights.back();
    layer.gradients = sums.gradients.back();
    layer.optimizer_state = sums.state.back();
    layer.activations_exact = FitAffine(Points(program_, sums.activations), &layer.activations);
    layer.workspace = FitWorkspace(Points(program_, sums.workspace));
    return layer;
  }

  const Program& program_;
  std::vector<MemoryKind> kinds_;
  std::vector<Place> places_;
  int last_part_ = 0;
  std::map<std::int32_t, LayerSums> sums_;
};

// Requests of one operator, module and phase.
struct RequestGroup {
  std::string operator_name, module_path;
  Phase phase = Phase::kNone;
  SampleMask mask = 0;
  std::int64_t requests = 0;
  Bytes largest_bytes = 0;
};

// Groups the allocations for which `key_of` has a key, by it too.
template <typename KeyOf>
std::vector<RequestGroup> Groups(const Program& program, const KeyOf& key_of) {
  const std::vector<Place> places = PlacesOf(program);
  std::map<std::tuple<std::int32_t, std::int32_t, Phase, SampleMask>, std::size_t> index;
  std::vector<RequestGroup> groups;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const ProgramEvent& event = program.events[i];
    if (event.kind != EventKind::kAlloc) continue;
    const std::optional<SampleMask> mask = key_of(event);
    if (!mask) continue;
    const auto key = std::tuple(event.op, event.module, places[i].phase, *mask);
    const auto [it, added] = index.try_emplace(key, groups.size());
    if (added) {
      RequestGroup group{.phase = places[i].phase, .mask = *mask};
      if (event.op >= 0)
        group.operator_name = program.operators[static_cast<std::size_t>(event.op)];
      if (event.module >= 0) {
        group.module_path = program.modules[static_cast<std::size_t>(event.module)].path;
      }
      groups.push_back(std::move(group));
    }
    RequestGroup& group = groups[it->second];
    ++group.requests;
    const SizeRule& rule = program.rules[static_cast<std::size_t>(event.target)];
    for (std::size_t s = 0; s < program.batches.size(); ++s) {
      if ((event.mask >> s) & 1) {
        group.largest_bytes = std::max(group.largest_bytes, rule.At(program.batches[s]));
      }
    }
  }
  return groups;
}

bool HoldsSomething(const LayerModel& layer) {
  const bool workspace = std::any_of(layer.workspace.traced.begin(), layer.workspace.traced.end(),
                                     [](const BatchBytes& p) { return p.bytes > 0; });
  return workspace || layer.weights > 0 || layer.gradients > 0 || layer.optimizer_state > 0 ||
         layer.activations.alpha != 0 || layer.activations.beta != 0;
}

}  // namespace

std::vector<MemoryKind> KindsOf(const Program& program) {
  const std::vector<Place> places = PlacesOf(program);
  const std::vector<std::int32_t> releases = ReleasesOf(program);
  std::vector<MemoryKind> kinds(program.events.size(), MemoryKind::kTemporaries);
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    if (program.events[i].kind != EventKind::kAlloc) continue;
    const std::int32_t at = releases[i];
    const bool freed = at >= 0;
    const auto release = static_cast<std::size_t>(freed ? at : 0);
    kinds[i] = KindOf(program.events[i], places[i], freed ? &program.events[release] : nullptr,
                      freed ? &places[release] : nullptr);
  }
  return kinds;
}

std::vector<LayerModel> LayersOf(const Program& program) {
  std::vector<LayerModel> layers = LayerBuilder(program).Run();
  std::erase_if(layers, [](const LayerModel& layer) { return !HoldsSomething(layer); });
  return layers;
}

std::vector<OrderChange> OrderChangesOf(const Program& program) {
  const SampleMask all = (SampleMask{2} << (program.batches.size() - 1)) - 1;
  std::vector<OrderChange> changes;
  for (const RequestGroup& group : Groups(program, [&](const ProgramEvent& event) {
         return event.mask != all ? std::optional(event.mask) : std::nullopt;
       })) {
    OrderChange change{.operator_name = group.operator_name,
                       .module_path = group.module_path,
                       .phase = group.phase,
                       .largest_bytes = group.largest_bytes,
                       .requests = group.requests};
    for (std::size_t s = 0; s < program.batches.size(); ++s) {
      ((group.mask >> s) & 1 ? change.present : change.absent).push_back(program.batches[s]);
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<FittedSizes> FittedSizesOf(const Program& program) {
  std::vector<FittedSizes> fitted;
  for (RequestGroup& group : Groups(program, [&](const ProgramEvent& event) {
         const bool exact = program.rules[static_cast<std::size_t>(event.target)].exact();
         return exact ? std::nullopt : std::optional(SampleMask{0});
       })) {
    fitted.push_back({std::move(group.operator_name), std::move(group.module_path), group.phase,
                      group.requests, group.largest_bytes});
  }
  return fitted;
}

}  // namespace memmodel
