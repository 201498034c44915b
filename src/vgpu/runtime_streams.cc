// Streams and events of the runtime.
#include "src/vgpu/runtime.h"
#include "src/vgpu/runtime_pools.h"

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

namespace {

Event* ToEvent(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

}  // namespace

VGPU_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                  int priority) {
  if (stream == nullptr) return Note(cudaErrorInvalidValue);
  if (priority > kLeastPriority) priority = kLeastPriority;
  if (priority < kGreatestPriority) priority = kGreatestPriority;
  auto* made = new Stream;
  made->device = State::CurrentDevice();
  made->priority = priority;
  made->flags = flags;
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

VGPU_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

VGPU_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return Note(cudaErrorInvalidResourceHandle);
  delete FindStream(stream);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority == nullptr) return Note(cudaErrorInvalidValue);
  *priority = FindStream(stream)->priority;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (flags == nullptr) return Note(cudaErrorInvalidValue);
  *flags = FindStream(stream)->flags;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (device == nullptr) return Note(cudaErrorInvalidValue);
  *device = FindStream(stream)->device;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (id == nullptr) return Note(cudaErrorInvalidValue);
  *id = reinterpret_cast<std::uintptr_t>(FindStream(stream));
  return cudaSuccess;
}

// Asking about a stream that captures is an error, and ends the capture.
VGPU_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return InvalidateCapture(FindStream(stream)) ? Note(cudaErrorStreamCaptureUnsupported)
                                               : cudaSuccess;
}
VGPU_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (InvalidateCapture(FindStream(stream))) return Note(cudaErrorStreamCaptureUnsupported);
  ReleasePools();
  return cudaSuccess;
}
VGPU_API cudaError_t cudaDeviceSynchronize() {
  ReleasePools();
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return Note(cudaErrorInvalidResourceHandle);
  WaitEvent(FindStream(stream), ToEvent(event));
  return cudaSuccess;
}

// Host functions run at once, in the calling thread.
VGPU_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return Note(cudaErrorInvalidValue);
  if (!Captured(FindStream(stream), GraphNode::kHost, function, data)) function(data);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                           void* data, unsigned) {
  if (callback == nullptr) return Note(cudaErrorInvalidValue);
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return Note(cudaErrorInvalidValue);
  auto* made = new Event;
  made->device = State::CurrentDevice();
  made->flags = flags;
  *event = reinterpret_cast<cudaEvent_t>(made);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

VGPU_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return Note(cudaErrorInvalidResourceHandle);
  delete ToEvent(event);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  if (event == nullptr) return Note(cudaErrorInvalidResourceHandle);
  RecordEvent(ToEvent(event), FindStream(stream));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

VGPU_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event == nullptr ? Note(cudaErrorInvalidResourceHandle) : cudaSuccess;
}

VGPU_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return Note(cudaErrorInvalidResourceHandle);
  ReleasePools();
  return cudaSuccess;
}

// By the device's clock (RecordEvent).
VGPU_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return Note(cudaErrorInvalidValue);
  if (start == nullptr || end == nullptr) return Note(cudaErrorInvalidResourceHandle);
  const Event& first = *ToEvent(start);
  const Event& second = *ToEvent(end);
  if (!first.recorded || !second.recorded ||
      ((first.flags | second.flags) & cudaEventDisableTiming) != 0) {
    return Note(cudaErrorInvalidResourceHandle);
  }
  *milliseconds = static_cast<float>(second.time_ms - first.time_ms);
  return cudaSuccess;
}

#if CUDART_VERSION < 13000
VGPU_API cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start,
                                             cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
#endif
