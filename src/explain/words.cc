// The sentences. Each states figures of the model or the prediction and nothing
// else; a sentence whose premise does not hold is left out.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "src/explain/checkpoint.h"
#include "src/explain/explain.h"

namespace memmodel {
namespace {

std::string Share(Bytes part, Bytes whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%",
                100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

std::string Where(const std::string& op, const std::string& module) {
  std::string text = op.empty() ? std::string("outside any operator") : "in " + op;
  if (!module.empty()) text.append(" of ").append(module);
  return text;
}

std::string PhaseWords(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "the forward pass";
    case Phase::kBackward:
      return "the backward pass";
    case Phase::kOptimizer:
      return "the optimizer step";
    case Phase::kLoad:
      return "loading";
    case Phase::kNone:
      return "no phase";
  }
  return "";
}

// "1.2 GiB of activations, 300 MiB of weights": what is above 0, largest first.
std::string Kinds(const Breakdown& breakdown) {
  std::vector<std::pair<Bytes, std::string>> parts;
  for (int k = 0; k < kMemoryKinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    if (breakdown.of(kind) == 0) continue;
    std::string name(Name(kind));
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.emplace_back(breakdown.of(kind), std::move(name));
  }
  std::sort(parts.begin(), parts.end(), std::greater<>());
  std::string text;
  for (const auto& [bytes, name] : parts) {
    if (!text.empty()) text += ", ";
    text += FormatBytes(bytes) + " of " + name;
  }
  return text;
}

class Writer {
 public:
  Writer(const MemoryModel& model, const Prediction& prediction, std::int64_t batch)
      : model_(model), prediction_(prediction), batch_(batch) {}

  std::vector<std::string> Run() {
    Total();
    Peak();
    Constant();
    PerSample();
    Dominant();
    Bend();
    Workspaces();
    Fragmentation();
    return std::move(text_);
  }

 private:
  void Total() {
    const memmodel::Peak& peak = *prediction_.peak;
    text_.push_back(
        "At batch " + std::to_string(batch_) + " the process takes " + FormatBytes(peak.device) +
        " of the card: " + FormatBytes(peak.reserved) + " that PyTorch reserves, and " +
        FormatBytes(peak.device - peak.reserved) +
        " of context (driver, kernels, libraries), which does not depend on the batch.");
  }

  void Peak() {
    const Breakdown& b = prediction_.use->breakdown;
    text_.push_back("The most that is allocated at once, " + FormatBytes(b.allocated_peak) +
                    ", stands in " + PhaseWords(b.phase) + " of step " +
                    std::to_string(b.step + 1) + ", " + Where(b.op, b.module) +
                    ". Alive at that moment are " + Kinds(b) + ".");
  }

  void Constant() {
    Bytes weights = 0, gradients = 0, state = 0;
    for (const LayerModel& layer : model_.layers()) {
      weights += layer.weights;
      gradients += layer.gradients;
      state += layer.optimizer_state;
    }
    std::string text =
        "Constant, whatever the batch: " + FormatBytes(weights) + " of weights and buffers";
    if (gradients > 0) text += ", " + FormatBytes(gradients) + " of gradients";
    if (state > 0) text += ", " + FormatBytes(state) + " of optimizer state";
    text_.push_back(text + ".");
  }

  void PerSample() {
    for (const LayerModel& layer : model_.layers()) {
      alpha_ += layer.activations.alpha;
      beta_ += layer.activations.beta;
      exact_ = exact_ && layer.activations_exact;
    }
    if (beta_ <= 0) return;
    text_.push_back(
        "Every sample adds " + FormatBytes(beta_) +
        " of activations that live from the forward to the backward pass" +
        (exact_ ? "." : " (a least-squares line: in some layers they are not quite one)."));
  }

  void Dominant() {
    if (beta_ <= 0) return;
    const std::vector<GroupMemory> groups = GroupsOf(model_, batch_);
    Bytes all = 0;
    for (const GroupMemory& g : groups) all += g.activations.alpha + g.activations.beta * batch_;
    if (all <= 0 || groups.empty()) return;
    std::string text = "The largest parts of them are kept by ";
    const std::size_t shown = std::min<std::size_t>(3, groups.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const GroupMemory& g = groups[i];
      if (i > 0) text += i + 1 == shown ? " and " : ", ";
      text += (g.path.empty() ? std::string("the model itself") : g.path) + " (" +
              Share(g.activations.alpha + g.activations.beta * batch_, all) + ")";
    }
    text_.push_back(text + " of " + std::to_string(groups.size()) + " blocks and layers.");
  }

  // The growth of the peak at small batches against that near the batch, and why.
  void Bend() {
    if (batch_ < 4) return;
    const double small = Slope(1, std::max<std::int64_t>(2, batch_ / 8));
    const double large = Slope(std::max<std::int64_t>(2, batch_ / 2), batch_);
    const PeakMoment at_one = model_.PeakAt(1), at_batch = model_.PeakAt(batch_);
    std::string text = "From batch 1 to " + std::to_string(std::max<std::int64_t>(2, batch_ / 8)) +
                       " a sample adds " + FormatBytes(std::llround(small)) +
                       " to the peak of what is requested, near batch " + std::to_string(batch_) +
                       " it adds " + FormatBytes(std::llround(large)) + ".";
    if (at_one.phase != at_batch.phase && std::fabs(small - large) > 0.01 * large) {
      text += " At batch 1 the peak stands in " + PhaseWords(at_one.phase) +
              (at_one.phase == Phase::kOptimizer ? ", when the activations are gone" : "") +
              "; it moves to " + PhaseWords(at_batch.phase) + " at batch " +
              std::to_string(Moves(at_batch.phase)) + ".";
    } else if (std::fabs(small - large) <= 0.01 * large) {
      text += " That is the same within 1 %: the curve is a line.";
    } else {
      text += " The peak stands " + Where(at_one.operator_name, at_one.module_path) +
              " at batch 1 and " + Where(at_batch.operator_name, at_batch.module_path) +
              " at batch " + std::to_string(batch_) + ".";
      if (small > static_cast<double>(beta_) && large > static_cast<double>(beta_)) {
        text +=
            " What a sample adds beyond its activations are workspaces and temporaries alive "
            "there.";
      }
    }
    text_.push_back(text);
  }

  [[nodiscard]] double Slope(std::int64_t a, std::int64_t b) const {
    return static_cast<double>(model_.RequestedPeak(b) - model_.RequestedPeak(a)) /
           static_cast<double>(b - a);
  }

  // The first batch from which on, up to `batch_`, the peak stands in `phase`.
  [[nodiscard]] std::int64_t Moves(Phase phase) const {
    std::int64_t low = 1, high = batch_;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (model_.PeakAt(middle).phase == phase ? high : low) = middle;
    }
    return high;
  }

  void Workspaces() {
    const LayerModel* largest = nullptr;
    Bytes most = 0;
    for (const LayerModel& layer : model_.layers()) {
      for (const BatchBytes& p : layer.workspace.traced) {
        if (p.batch == batch_ && p.bytes > most) {
          most = p.bytes;
          largest = &layer;
        }
      }
    }
    if (largest == nullptr) return;
    const BatchBytes& first = largest->workspace.traced.front();
    text_.push_back("The largest workspace, memory that one operator takes and gives back, is " +
                    FormatBytes(most) + " at batch " + std::to_string(batch_) + ", in " +
                    (largest->path.empty() ? std::string("the model itself") : largest->path) +
                    "; at batch " + std::to_string(first.batch) + " the same layer takes " +
                    (first.bytes == 0 ? std::string("none") : FormatBytes(first.bytes)) + ".");
  }

  void Fragmentation() {
    const memmodel::Peak& peak = *prediction_.peak;
    if (peak.reserved <= peak.allocated) return;
    text_.push_back(FormatBytes(peak.reserved - peak.allocated) + " (" +
                    Share(peak.reserved - peak.allocated, peak.reserved) +
                    ") of what is reserved is not allocated at the peak: cached blocks of other "
                    "sizes, and what segments of 2 MiB, 20 MiB and more leave over.");
  }

  const MemoryModel& model_;
  const Prediction& prediction_;
  std::int64_t batch_;
  Bytes alpha_ = 0, beta_ = 0;
  bool exact_ = true;
  std::vector<std::string> text_;
};

}  // namespace

std::vector<GroupMemory> GroupsOf(const MemoryModel& model, std::int64_t batch) {
  std::map<std::string, GroupMemory> groups;
  for (const LayerModel& layer : model.layers()) {
    std::string block = BlockOf(layer.path);
    if (block.empty()) block = layer.path;
    GroupMemory& group = groups[block];
    group.path = block;
    group.constant += layer.weights + layer.gradients + layer.optimizer_state;
    group.activations.alpha += layer.activations.alpha;
    group.activations.beta += layer.activations.beta;
  }
  std::vector<GroupMemory> list;
  for (auto& [path, group] : groups) list.push_back(std::move(group));
  std::stable_sort(list.begin(), list.end(), [&](const GroupMemory& a, const GroupMemory& b) {
    return a.activations.alpha + a.activations.beta * batch >
           b.activations.alpha + b.activations.beta * batch;
  });
  return list;
}

std::vector<std::string> ExplainInWords(const MemoryModel& model, const Prediction& prediction,
                                        std::int64_t batch) {
  return Writer(model, prediction, batch).Run();
}

}  // namespace memmodel
