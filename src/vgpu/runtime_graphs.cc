// Stream capture and graphs of the runtime: bookkeeping only.
#include <algorithm>
#include <cstring>

#include "src/vgpu/runtime.h"

// What tells of edge data has names of its own in CUDA 12, beside functions without.
#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#endif

namespace memmodel::vgpu {

GraphExec* Instantiate(const Graph& graph) {
  auto* exec = new GraphExec;
  for (const auto& node : graph.nodes) {
    if (node->function != nullptr) exec->host_nodes.push_back(*node);
  }
  return exec;
}

namespace {

cudaError_t FromCapture(CaptureOutcome outcome) {
  switch (outcome) {
    case CaptureOutcome::kOk:
      return cudaSuccess;
    case CaptureOutcome::kIllegal:
      return cudaErrorIllegalState;
    case CaptureOutcome::kUnmatched:
      return cudaErrorStreamCaptureUnmatched;
    case CaptureOutcome::kInvalidated:
      return cudaErrorStreamCaptureInvalidated;
    case CaptureOutcome::kUnjoined:
      break;
  }
  return cudaErrorStreamCaptureUnjoined;
}

Graph* ToGraph(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
GraphExec* ToExec(cudaGraphExec_t exec) { return reinterpret_cast<GraphExec*>(exec); }

// The capture that the stream takes part in; one that has ended is let go.
Capture* Active(Stream* stream) {
  if (stream->capture != nullptr && stream->capture->graph == nullptr) stream->capture = nullptr;
  return stream->capture.get();
}

cudaStreamCaptureStatus Status(const Capture* capture) {
  if (capture == nullptr) return cudaStreamCaptureStatusNone;
  return capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  // The legacy stream cannot be captured.
  if (reinterpret_cast<std::uintptr_t>(stream) <= 1) return Note(cudaErrorStreamCaptureUnsupported);
  return Note(FromCapture(BeginCapture(FindStream(stream))));
}

VGPU_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (graph == nullptr) return Note(cudaErrorInvalidValue);
  Graph* made = nullptr;
  const cudaError_t error = FromCapture(EndCapture(FindStream(stream), &made));
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return Note(error);
}

VGPU_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return Note(cudaErrorInvalidValue);
  Stream* found = FindStream(stream);
  const auto lock = State::Get().Lock();
  *status = Status(Active(found));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                              unsigned long long* id, cudaGraph_t* graph,
                                              const cudaGraphNode_t** dependencies,
                                              const cudaGraphEdgeData** edges, size_t* count) {
  if (status == nullptr) return Note(cudaErrorInvalidValue);
  Stream* found = FindStream(stream);
  const auto lock = State::Get().Lock();
  Capture* capture = Active(found);
  *status = Status(capture);
  if (edges != nullptr) *edges = nullptr;  // all edges are plain ones
  if (capture == nullptr) return cudaSuccess;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph.get());
  if (dependencies != nullptr) {
    *dependencies = reinterpret_cast<const cudaGraphNode_t*>(found->last.data());
  }
  if (count != nullptr) *count = found->last.size();
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                         cudaGraphNode_t* dependencies,
                                                         const cudaGraphEdgeData*, size_t count,
                                                         unsigned flags) {
  Stream* found = FindStream(stream);
  const auto lock = State::Get().Lock();
  if (Active(found) == nullptr) return Note(cudaErrorIllegalState);
  if (flags == cudaStreamSetCaptureDependencies) found->last.clear();
  for (std::size_t i = 0; i < count; ++i) {
    found->last.push_back(reinterpret_cast<GraphNode*>(dependencies[i]));
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  if (mode == nullptr) return Note(cudaErrorInvalidValue);
  std::swap(*mode, current);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  if (graph == nullptr) return Note(cudaErrorInvalidValue);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return Note(cudaErrorInvalidValue);
  delete ToGraph(graph);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (graph == nullptr || count == nullptr) return Note(cudaErrorInvalidValue);
  const auto& all = ToGraph(graph)->nodes;
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) {
      nodes[i] = i < all.size() ? reinterpret_cast<cudaGraphNode_t>(all[i].get()) : nullptr;
    }
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  if (node == nullptr || type == nullptr) return Note(cudaErrorInvalidValue);
  switch (reinterpret_cast<GraphNode*>(node)->kind) {
    case GraphNode::kKernel:
      *type = cudaGraphNodeTypeKernel;
      break;
    case GraphNode::kCopy:
      *type = cudaGraphNodeTypeMemcpy;
      break;
    case GraphNode::kFill:
      *type = cudaGraphNodeTypeMemset;
      break;
    case GraphNode::kHost:
      *type = cudaGraphNodeTypeHost;
      break;
    case GraphNode::kOther:
      *type = cudaGraphNodeTypeEmpty;
      break;
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                  cudaGraphEdgeData* edges, size_t* count) {
  if (node == nullptr || count == nullptr) return Note(cudaErrorInvalidValue);
  const auto& all = reinterpret_cast<GraphNode*>(node)->dependencies;
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) {
      nodes[i] = i < all.size() ? reinterpret_cast<cudaGraphNode_t>(all[i]) : nullptr;
    }
    if (edges != nullptr) std::memset(edges, 0, *count * sizeof *edges);
    *count = std::min(*count, all.size());
  } else {
    *count = all.size();
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  if (exec == nullptr || graph == nullptr) return Note(cudaErrorInvalidValue);
  *exec = reinterpret_cast<cudaGraphExec_t>(Instantiate(*ToGraph(graph)));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                   unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

VGPU_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return Note(cudaErrorInvalidValue);
  delete ToExec(exec);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

VGPU_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) return Note(cudaErrorInvalidValue);
  if (Captured(FindStream(stream), GraphNode::kOther)) return cudaSuccess;  // a child graph
  State::Get().CountLaunch();
  RunHostNodes(*ToExec(exec));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  if (graph == nullptr || path == nullptr) return Note(cudaErrorInvalidValue);
  return Note(cudaErrorNotSupported);
}

#if CUDART_VERSION < 13000
#undef cudaStreamUpdateCaptureDependencies
#undef cudaGraphNodeGetDependencies
VGPU_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                 cudaStreamCaptureStatus* status,
                                                 unsigned long long* id, cudaGraph_t* graph,
                                                 const cudaGraphNode_t** dependencies,
                                                 size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

VGPU_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                         cudaGraphNode_t* dependencies,
                                                         size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}

VGPU_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes,
                                                  size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}
#endif
