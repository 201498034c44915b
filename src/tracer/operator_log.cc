// Operators arrive as RecordFunction ranges that nest on a thread: a stack of
// (operator, module) entries a thread is enough. Two scopes matter:
//
//   FUNCTION           aten operators; in forward, seqNr() is the number of the
//                      autograd node that the operator makes
//   BACKWARD_FUNCTION  "ConvolutionBackward0" with the seqNr and forward thread
//                      of the operator that made it; aten operators nest below
//
// The forward module is TorchScript's own: torch::jit::currentModuleHierarchy()
// inside the callback gives {"TOP(ResNet)::forward", "layer1(Sequential)::forward"}.
#include "src/tracer/operator_log.h"

#include <ATen/record_function.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace memmodel::tracer {
namespace {

struct Frame {
  OperatorId op = OperatorId::kNone;
  ModuleId module = ModuleId::kNone;
  std::int64_t elements = -1;
};

struct State {
  OperatorDetail detail = OperatorDetail::kNameOnly;
  LastStarted* last = nullptr;
  std::mutex mutex;  // guards all below
  std::vector<std::string> operators;
  std::vector<ModuleInfo> modules;
  std::unordered_map<std::string, OperatorId> operator_ids;
  std::unordered_map<std::string, ModuleId> module_ids;  // by path
  std::map<std::pair<std::int64_t, std::uint64_t>, ModuleId> by_sequence;
};

// One for the process: RecordFunction's callbacks are plain functions.
State& TheState() {
  static State state;
  return state;
}

thread_local std::vector<Frame> frames;
// Names of the operators that the thread is in, under kNameOnly. RecordFunction owns
// the text until its end callback.
thread_local std::array<const char*, 64> names;
thread_local std::size_t depth = 0;
thread_local ModuleId explicit_module = ModuleId::kNone;

OperatorId InternOperator(State& state, const char* name) {
  const auto [it, added] =
      state.operator_ids.try_emplace(name, static_cast<OperatorId>(state.operators.size()));
  if (added) state.operators.emplace_back(name);
  return it->second;
}

ModuleId InternModule(State& state, const std::string& type, const std::string& path) {
  const auto [it, added] =
      state.module_ids.try_emplace(path, static_cast<ModuleId>(state.modules.size()));
  if (added) state.modules.push_back({path, type});
  return it->second;
}

// From TorchScript's "name(Type)::method" parts: {type of the innermost, dotted path}.
// "CALL_FUNCTION::name" is a free function, whose module is the one around it.
ModuleInfo FromHierarchy(const std::vector<std::string>& parts) {
  ModuleInfo info;
  for (const std::string& part : parts) {
    const std::size_t open = part.find('(');
    const std::size_t close = part.find(')', open);
    if (open == std::string::npos || close == std::string::npos) continue;
    const std::string name = part.substr(0, open);
    info.type = part.substr(open + 1, close - open - 1);
    if (name.starts_with("CALL_FUNCTION")) continue;
    if (name == "TOP" || name == "SELF" || name.empty() || name == "INSTANCE_NAME_UNKNOWN")
      continue;
    if (!info.path.empty()) info.path.push_back('.');
    info.path += name;
  }
  return info;
}

std::int64_t LargestInput(const at::RecordFunction& fn) {
  std::int64_t largest = -1;
  for (const c10::IValue& value : fn.inputs()) {
    if (!value.isTensor()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined()) largest = std::max(largest, tensor.numel());
  }
  return largest;
}

template <std::size_t N>
void Share(char (&place)[N], const char* text) {
  std::strncpy(place, text, N - 1);
}

std::unique_ptr<at::ObserverContext> StartNameOnly(const at::RecordFunction& fn) {
  const char* name = fn.name();
  if (depth < names.size()) names[depth] = name;
  ++depth;
  if (LastStarted* last = TheState().last) Share(last->op, name);
  return nullptr;
}

void EndNameOnly(const at::RecordFunction&, at::ObserverContext*) {
  if (depth > 0) --depth;
}

std::unique_ptr<at::ObserverContext> StartFull(const at::RecordFunction& fn) {
  State& state = TheState();
  Frame frame;
  frame.elements = LargestInput(fn);
  const bool backward = fn.scope() == at::RecordScope::BACKWARD_FUNCTION;
  ModuleInfo here;
  bool know_here = false;
  if (!backward && explicit_module == ModuleId::kNone) {
    const std::vector<std::string> hierarchy = torch::jit::currentModuleHierarchy();
    know_here = !hierarchy.empty();
    if (know_here) here = FromHierarchy(hierarchy);
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  frame.op = InternOperator(state, fn.name());
  if (backward) {
    const auto it = state.by_sequence.find({fn.seqNr(), fn.forwardThreadId()});
    if (it != state.by_sequence.end()) frame.module = it->second;
  } else if (explicit_module != ModuleId::kNone) {
    frame.module = explicit_module;
  } else if (know_here) {
    frame.module = InternModule(state, here.type, here.path);
  } else if (!frames.empty()) {
    frame.module = frames.back().module;
  }
  if (!backward && fn.seqNr() >= 0 && frame.module != ModuleId::kNone) {
    state.by_sequence[{fn.seqNr(), at::RecordFunction::currentThreadId()}] = frame.module;
  }
  frames.push_back(frame);
  if (state.last != nullptr) {
    Share(state.last->op, fn.name());
    const bool known = frame.module != ModuleId::kNone;
    Share(state.last->module,
          known ? state.modules[static_cast<std::size_t>(frame.module)].path.c_str() : "");
  }
  return nullptr;
}

void EndFull(const at::RecordFunction&, at::ObserverContext*) {
  if (!frames.empty()) frames.pop_back();
}

}  // namespace

void WatchOperators(OperatorDetail detail, LastStarted* last) {
  State& state = TheState();
  state.detail = detail;
  state.last = last;
  const bool full = detail == OperatorDetail::kFull;
  at::addGlobalCallback(
      at::RecordFunctionCallback(full ? StartFull : StartNameOnly, full ? EndFull : EndNameOnly)
          .needsInputs(full)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorId CurrentOperator() { return frames.empty() ? OperatorId::kNone : frames.back().op; }

ModuleId CurrentModule() { return frames.empty() ? explicit_module : frames.back().module; }

std::string CurrentOperatorName() {
  State& state = TheState();
  if (state.detail == OperatorDetail::kNameOnly) {
    return depth == 0 ? "" : names[std::min(depth, names.size()) - 1];
  }
  if (frames.empty()) return "";
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.operators[static_cast<std::size_t>(frames.back().op)];
}

std::string CurrentModulePath() {
  State& state = TheState();
  const ModuleId id = CurrentModule();
  if (id != ModuleId::kNone) {
    const std::lock_guard<std::mutex> lock(state.mutex);
    return state.modules[static_cast<std::size_t>(id)].path;
  }
  return FromHierarchy(torch::jit::currentModuleHierarchy()).path;
}

std::int64_t CurrentInputElements() { return frames.empty() ? -1 : frames.back().elements; }

const std::vector<std::string>& Operators() { return TheState().operators; }
const std::vector<ModuleInfo>& Modules() { return TheState().modules; }

void SetModule(std::string_view type, std::string_view path, bool inside) {
  State& state = TheState();
  if (!inside) {
    explicit_module = ModuleId::kNone;
    return;
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  explicit_module = InternModule(state, std::string(type), std::string(path));
}

}  // namespace memmodel::tracer
