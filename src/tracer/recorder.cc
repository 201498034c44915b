#include "src/tracer/recorder.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <utility>

#include "src/tracer/call_key.h"
#include "src/vgpu/control.h"

namespace memmodel::tracer {
namespace {

using Action = c10::CachingDeviceAllocator::TraceEntry::Action;

// False for actions that are not part of a trace.
bool ToKind(Action action, EventKind* kind) {
  switch (action) {
    case Action::ALLOC:
      *kind = EventKind::kAlloc;
      return true;
    case Action::FREE_REQUESTED:
      *kind = EventKind::kFree;
      return true;
    case Action::FREE_COMPLETED:
      *kind = EventKind::kFreeCompleted;
      return true;
    case Action::SEGMENT_ALLOC:
      *kind = EventKind::kSegmentAlloc;
      return true;
    case Action::SEGMENT_FREE:
      *kind = EventKind::kSegmentFree;
      return true;
    case Action::SEGMENT_MAP:
      *kind = EventKind::kSegmentMap;
      return true;
    case Action::SEGMENT_UNMAP:
      *kind = EventKind::kSegmentUnmap;
      return true;
    case Action::OOM:
      *kind = EventKind::kOutOfMemory;
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Recorder::Shared {
  std::mutex mutex;
  bool recording = true;
  Trace trace;
  std::unordered_map<void*, std::int32_t> streams;

  void Add(const c10::CachingDeviceAllocator::TraceEntry& entry) {
    Event event;
    if (!ToKind(entry.action_, &event.kind)) return;
    event.address = entry.addr_;
    event.size = static_cast<Bytes>(entry.size_);
    event.op = CurrentOperator();
    event.module = CurrentModule();
    const std::lock_guard<std::mutex> lock(mutex);
    if (!recording) return;
    event.stream =
        streams.try_emplace(entry.stream_, static_cast<std::int32_t>(streams.size())).first->second;
    trace.events.push_back(event);
  }

  void AddOccasion(std::string_view name) {
    const std::optional<ContextOccasion> occasion = ParseOccasion(name);
    const std::lock_guard<std::mutex> lock(mutex);
    if (!recording || !occasion) return;
    trace.events.push_back({.kind = EventKind::kContext, .occasion = *occasion});
  }

  void AddConvolution(const char* key, std::uint64_t workspace) {
    // Only by default is the plan the heuristic's first, as whoever asks for the key gets it.
    const at::Context& context = at::globalContext();
    if (context.benchmarkCuDNN() || context.deterministicCuDNN() ||
        context.deterministicAlgorithms()) {
      return;
    }
    ConvolutionCall call{
        .workspace = workspace, .op = CurrentOperator(), .module = CurrentModule(), .key = key};
    const std::lock_guard<std::mutex> lock(mutex);
    if (!recording) return;
    call.position = trace.events.size();
    trace.convolutions.push_back(std::move(call));
  }
};

Recorder::Recorder(LastStarted* last) : shared_(std::make_shared<Shared>()) {
  WatchOperators(OperatorDetail::kFull, last);
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
      [shared = shared_](const c10::CachingDeviceAllocator::TraceEntry& entry) {
        shared->Add(entry);
      });
  WatchCalls();
  // There are no such functions where a real GPU is used.
  const auto watch = reinterpret_cast<decltype(&memmodel_vgpu_on_convolution)>(
      dlsym(RTLD_DEFAULT, "memmodel_vgpu_on_convolution"));
  const auto watch_growth = reinterpret_cast<decltype(&memmodel_vgpu_on_context_growth)>(
      dlsym(RTLD_DEFAULT, "memmodel_vgpu_on_context_growth"));
  if (watch == nullptr || watch_growth == nullptr) return;
  auto* const shared = new std::shared_ptr<Shared>(shared_);  // to the end of the process
  watch_growth(
      [](void* context, const char* occasion) {
        (*static_cast<std::shared_ptr<Shared>*>(context))->AddOccasion(occasion);
      },
      shared);
  watch(
      [](void* context, const char* key, std::uint64_t workspace) {
        (*static_cast<std::shared_ptr<Shared>*>(context))->AddConvolution(key, workspace);
      },
      shared);
}

// After WatchOperators: its callbacks are then called first.
void Recorder::WatchCalls() {
  struct Running : at::ObserverContext {
    OperatorCall call;
    std::size_t first = 0;  // event
  };
  static auto* const shared = new std::shared_ptr<Shared>(shared_);
  const auto begin = [](const at::RecordFunction& function) {
    std::unique_ptr<at::ObserverContext> none;
    std::string key = CallKey(function);
    if (key.empty()) return none;
    auto running = std::make_unique<Running>();
    running->call.key = std::move(key);
    running->call.op = CurrentOperator();
    running->call.module = CurrentModule();
    const std::lock_guard<std::mutex> lock((*shared)->mutex);
    running->first = (*shared)->trace.events.size();
    return std::unique_ptr<at::ObserverContext>(std::move(running));
  };
  const auto end = [](const at::RecordFunction&, at::ObserverContext* context) {
    auto* running = dynamic_cast<Running*>(context);
    if (running == nullptr) return;
    const std::lock_guard<std::mutex> lock((*shared)->mutex);
    if (!(*shared)->recording) return;
    running->call.position = (*shared)->trace.events.size();
    running->call.events = running->call.position - running->first;
    (*shared)->trace.operator_calls.push_back(std::move(running->call));
  };
  at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void Recorder::Mark(std::string_view text) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  Event event;
  event.text = shared_->trace.AddText(text);
  shared_->trace.events.push_back(event);
}

void Recorder::Tag(TensorRole role, const at::Tensor& tensor, std::string_view name) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage()) return;
  TagAddress(role, tensor.storage().data(), static_cast<Bytes>(tensor.storage().nbytes()), name);
}

void Recorder::TagAddress(TensorRole role, const void* address, Bytes size, std::string_view name) {
  if (address == nullptr) return;
  Event event;
  event.kind = EventKind::kTag;
  event.role = role;
  event.address = reinterpret_cast<std::uint64_t>(address);
  event.size = size;
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  event.text = shared_->trace.AddText(name);
  shared_->trace.events.push_back(event);
}

Trace Recorder::Take(std::string metadata) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->recording = false;
  shared_->trace.metadata = std::move(metadata);
  shared_->trace.operators = Operators();
  shared_->trace.modules = Modules();
  return std::move(shared_->trace);
}

}  // namespace memmodel::tracer
