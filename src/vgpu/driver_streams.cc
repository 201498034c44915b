// Streams, events and copies of the driver: the runtime's under other names.
#include "src/vgpu/driver.h"
#include "src/vgpu/streams.h"

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

namespace {

CUresult Copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, CUstream stream) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == 0 || from == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!Captured(FindStream(stream), GraphNode::kCopy)) {
    State::Get().Copy(to, from, bytes);
  } else if (OnDevice(to)) {
    State::Get().Forget(to, bytes);
  }
  return CUDA_SUCCESS;
}

CUresult Fill(CUdeviceptr to, unsigned value, std::size_t element, std::size_t count,
              CUstream stream) {
  if (count == 0) return CUDA_SUCCESS;
  if (to == 0) return CUDA_ERROR_INVALID_VALUE;
  State& state = State::Get();
  const unsigned low = value & 0xffU;
  const bool even = element == 1 || (element == 2 && value == low * 0x101U) ||
                    (element == 4 && value == low * 0x1010101U);
  if (Captured(FindStream(stream), GraphNode::kFill) || !even) {
    state.Forget(to, element * count);
  } else {
    state.Fill(to, static_cast<unsigned char>(low), element * count);
  }
  return CUDA_SUCCESS;
}

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

VGPU_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new Stream;
  made->device = State::CurrentDevice();
  made->priority = priority > kLeastPriority      ? kLeastPriority
                   : priority < kGreatestPriority ? kGreatestPriority
                                                  : priority;
  made->flags = flags;
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
VGPU_API CUresult cuStreamDestroy_v2(CUstream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return CUDA_ERROR_INVALID_HANDLE;
  delete FindStream(stream);
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
VGPU_API CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
VGPU_API CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = FindStream(stream)->priority;
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* found = FindStream(stream);
  const auto lock = State::Get().Lock();
  *status = found->capture == nullptr || found->capture->graph == nullptr
                ? CU_STREAM_CAPTURE_STATUS_NONE
                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WaitEvent(FindStream(stream), reinterpret_cast<Event*>(event));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* made = new Event;
  made->device = State::CurrentDevice();
  made->flags = flags;
  *event = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuEventDestroy_v2(CUevent event) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete reinterpret_cast<Event*>(event);
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  RecordEvent(reinterpret_cast<Event*>(event), FindStream(stream));
  return CUDA_SUCCESS;
}
VGPU_API CUresult cuEventQuery(CUevent event) {
  return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
VGPU_API CUresult cuEventSynchronize(CUevent event) { return cuEventQuery(event); }

VGPU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(to, Address(from), bytes, nullptr);
}
VGPU_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                       CUstream stream) {
  return Copy(to, Address(from), bytes, stream);
}
VGPU_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(Address(to), from, bytes, nullptr);
}
VGPU_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(Address(to), from, bytes, stream);
}
VGPU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(to, from, bytes, nullptr);
}
VGPU_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                       CUstream stream) {
  return Copy(to, from, bytes, stream);
}
VGPU_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, from, bytes, stream);
}
VGPU_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(to, value, 1, count, nullptr);
}
VGPU_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                  CUstream stream) {
  return Fill(to, value, 1, count, stream);
}
VGPU_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return Fill(to, value, 4, count, nullptr);
}
VGPU_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return Fill(to, value, 4, count, stream);
}
