#include "memmodel/trace.h"

#include <algorithm>
#include <array>

namespace memmodel {
namespace {

constexpr std::array<std::string_view, 9> kRoleNames = {
    "none",  "weight", "buffer", "gradient",         "optimizer_state",
    "input", "output", "loss",   "library_workspace"};
constexpr std::array<std::string_view, 3> kOccasionNames = {"first_kernel", "cublas_handle",
                                                            "cudnn_handle"};
constexpr std::array<std::string_view, 5> kPhaseNames = {"none", "load", "forward", "backward",
                                                         "optimizer"};

template <typename Id>
bool InRange(Id id, std::size_t size) {
  return static_cast<std::int32_t>(id) >= 0 && static_cast<std::size_t>(id) < size;
}

}  // namespace

std::string_view RoleName(TensorRole role) { return kRoleNames[static_cast<std::size_t>(role)]; }

std::string_view OccasionName(ContextOccasion occasion) {
  return kOccasionNames[static_cast<std::size_t>(occasion)];
}

std::optional<ContextOccasion> ParseOccasion(std::string_view name) {
  const auto found = std::find(kOccasionNames.begin(), kOccasionNames.end(), name);
  if (found == kOccasionNames.end()) return std::nullopt;
  return static_cast<ContextOccasion>(found - kOccasionNames.begin());
}

std::string_view PhaseName(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

Phase PhaseAfter(std::string_view text, Phase current) {
  if (text == marker::kLoad) return Phase::kLoad;
  if (text.starts_with(marker::kStepPrefix) || text == marker::kMicroBatch) return Phase::kForward;
  if (text == marker::kForwardDone) return Phase::kBackward;
  if (text == marker::kBackwardDone) return Phase::kOptimizer;
  if (text == marker::kStepDone || text == marker::kEnd) return Phase::kNone;
  return current;
}

std::string_view Trace::OperatorName(OperatorId id) const {
  return InRange(id, operators.size()) ? std::string_view(operators[static_cast<std::size_t>(id)])
                                       : std::string_view();
}

std::string_view Trace::ModulePath(ModuleId id) const {
  return InRange(id, modules.size()) ? std::string_view(modules[static_cast<std::size_t>(id)].path)
                                     : std::string_view();
}

std::string_view Trace::Text(TextId id) const {
  return InRange(id, texts.size()) ? std::string_view(texts[static_cast<std::size_t>(id)])
                                   : std::string_view();
}

TextId Trace::AddText(std::string_view text) {
  texts.emplace_back(text);
  return static_cast<TextId>(texts.size() - 1);
}

}  // namespace memmodel
