// Streams, events, captures and graphs. Everything completes at once; what is
// kept is what callers ask for: devices, priorities, whether a stream captures,
// how many nodes a graph has. CUDA handles are pointers to these objects.
//
// The objects are guarded by State::Lock(), which every function here takes.
#ifndef MEMMODEL_SRC_VGPU_STREAMS_H_
#define MEMMODEL_SRC_VGPU_STREAMS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "src/vgpu/export.h"

namespace memmodel::vgpu {

// Stream priorities of every GPU since sm_70 under CUDA 13.
inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

using HostFunction = void (*)(void*);

struct GraphNode {
  enum Kind { kKernel, kCopy, kFill, kHost, kOther } kind = kOther;
  std::vector<GraphNode*> dependencies;
  HostFunction function = nullptr;  // of a host node
  void* data = nullptr;
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

// The nodes of an instantiated graph that the host takes part in.
struct GraphExec {
  std::vector<GraphNode> host_nodes;
};

struct Capture {
  std::uint64_t id = 0;
  std::unique_ptr<Graph> graph;  // null once the capture has ended
  bool invalidated = false;
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  std::shared_ptr<Capture> capture;  // null: not capturing
  bool origin = false;               // the capture began on this stream
  std::vector<GraphNode*> last;      // what the next captured node depends on
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  double time_ms = 0;                // of the device's clock (RecordEvent)
  std::shared_ptr<Capture> capture;  // recorded in a capturing stream
  std::vector<GraphNode*> last;
};

// The stream behind a handle; the legacy and per-thread default streams have
// one object a device.
MEMMODEL_VGPU_EXPORT Stream* FindStream(void* handle);

enum class CaptureOutcome { kOk, kIllegal, kUnmatched, kInvalidated, kUnjoined };

MEMMODEL_VGPU_EXPORT CaptureOutcome BeginCapture(Stream* stream);
// On success the graph is the caller's.
MEMMODEL_VGPU_EXPORT CaptureOutcome EndCapture(Stream* stream, Graph** graph);
// Adds a node if the stream captures; returns whether it does, in which case
// the operation must not take effect now.
MEMMODEL_VGPU_EXPORT bool Captured(Stream* stream, GraphNode::Kind kind,
                                   HostFunction function = nullptr, void* data = nullptr);
// Something was launched by a library on a stream that is not known here: adds a
// node to the newest capture under way, if there is one.
MEMMODEL_VGPU_EXPORT void CapturedSomewhere();
// Whether the stream captures; the capture is invalid then.
MEMMODEL_VGPU_EXPORT bool InvalidateCapture(Stream* stream);
// The device's clock counts records, each a microsecond, and what PassTime adds: what a
// program measures is the same in each run.
MEMMODEL_VGPU_EXPORT void RecordEvent(Event* event, Stream* stream);
// Moves the clock on, for what does take time.
MEMMODEL_VGPU_EXPORT void PassTime(std::int64_t nanoseconds);
// A stream that waits for an event recorded in a capture joins that capture.
MEMMODEL_VGPU_EXPORT void WaitEvent(Stream* stream, Event* event);
MEMMODEL_VGPU_EXPORT void RunHostNodes(const GraphExec& exec);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_STREAMS_H_
