#include "src/vgpu/streams.h"

#include <array>
#include <utility>

#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

constexpr std::uintptr_t kLegacyStream = 1;     // cudaStreamLegacy
constexpr std::uintptr_t kPerThreadStream = 2;  // cudaStreamPerThread

// Under the lock.
std::uint64_t next_capture_id = 1;
std::vector<Stream*> origins;  // of the captures under way, oldest first
std::int64_t clock_ns = 0;

void AddNode(Stream* stream, GraphNode::Kind kind, HostFunction function, void* data) {
  auto node = std::make_unique<GraphNode>();
  node->kind = kind;
  node->dependencies = stream->last;
  node->function = function;
  node->data = data;
  stream->last = {node.get()};
  stream->capture->graph->nodes.push_back(std::move(node));
}

}  // namespace

Stream* FindStream(void* handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value > kPerThreadStream) return static_cast<Stream*>(handle);
  static std::array<Stream, kMostDevices> legacy;
  static std::array<Stream, kMostDevices> per_thread;
  const int device = State::CurrentDevice();
  auto& streams = value == kPerThreadStream ? per_thread : legacy;
  Stream* stream = &streams[static_cast<std::size_t>(device)];
  stream->device = device;
  static_assert(kLegacyStream == 1);
  return stream;
}

CaptureOutcome BeginCapture(Stream* stream) {
  const auto lock = State::Get().Lock();
  if (stream->capture != nullptr) return CaptureOutcome::kIllegal;
  stream->capture = std::make_shared<Capture>();
  stream->capture->id = next_capture_id++;
  stream->capture->graph = std::make_unique<Graph>();
  stream->origin = true;
  stream->last.clear();
  origins.push_back(stream);
  return CaptureOutcome::kOk;
}

CaptureOutcome EndCapture(Stream* stream, Graph** graph) {
  const auto lock = State::Get().Lock();
  *graph = nullptr;
  if (stream->capture == nullptr) return CaptureOutcome::kIllegal;
  if (!stream->origin) return CaptureOutcome::kUnmatched;
  std::erase(origins, stream);
  const std::shared_ptr<Capture> capture = std::move(stream->capture);
  stream->capture = nullptr;
  stream->origin = false;
  stream->last.clear();
  if (capture->invalidated) return CaptureOutcome::kInvalidated;
  *graph = capture->graph.release();  // streams that joined see the end by this
  return CaptureOutcome::kOk;
}

bool Captured(Stream* stream, GraphNode::Kind kind, HostFunction function, void* data) {
  const auto lock = State::Get().Lock();
  if (stream->capture != nullptr && stream->capture->graph == nullptr) stream->capture = nullptr;
  if (stream->capture == nullptr) return false;
  AddNode(stream, kind, function, data);
  return true;
}

void CapturedSomewhere() {
  const auto lock = State::Get().Lock();
  if (!origins.empty()) AddNode(origins.back(), GraphNode::kKernel, nullptr, nullptr);
}

bool InvalidateCapture(Stream* stream) {
  const auto lock = State::Get().Lock();
  if (stream->capture == nullptr || stream->capture->graph == nullptr) return false;
  stream->capture->invalidated = true;
  return true;
}

void RecordEvent(Event* event, Stream* stream) {
  const auto lock = State::Get().Lock();
  event->recorded = true;
  clock_ns += 1000;
  event->time_ms = static_cast<double>(clock_ns) * 1e-6;
  event->capture = stream->capture;
  event->last = stream->last;
}

void PassTime(std::int64_t nanoseconds) {
  const auto lock = State::Get().Lock();
  clock_ns += nanoseconds;
}

void WaitEvent(Stream* stream, Event* event) {
  const auto lock = State::Get().Lock();
  if (event->capture == nullptr || event->capture->graph == nullptr) return;
  if (stream->capture == nullptr || stream->capture->graph == nullptr) {
    stream->capture = event->capture;
    stream->origin = false;
    stream->last.clear();
  }
  if (stream->capture != event->capture) return;
  for (GraphNode* node : event->last) {
    bool known = false;
    for (const GraphNode* other : stream->last) known = known || other == node;
    if (!known) stream->last.push_back(node);
  }
}

void RunHostNodes(const GraphExec& exec) {
  for (const GraphNode& node : exec.host_nodes) node.function(node.data);
}

}  // namespace memmodel::vgpu
