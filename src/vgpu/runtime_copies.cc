// Copies and memsets of the runtime. What a stream captures does not happen;
// its target's bytes become unknown.
#include <cstdint>

#include "src/vgpu/runtime.h"

namespace memmodel::vgpu {
namespace {

struct Plane {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;
};

cudaError_t CopyRows(Plane to, Plane from, std::uint64_t width, std::uint64_t height,
                     cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (to.address == 0 || from.address == 0 || (height > 1 && (to.pitch < width || from.pitch < width))) {
    return Note(cudaErrorInvalidValue);
  }
  const bool captured = Captured(FindStream(stream), GraphNode::kCopy);
  if (to.pitch == width && from.pitch == width) {
    width *= height;
    height = 1;
  }
  for (std::uint64_t row = 0; row < height; ++row) {
    if (captured) {
      if (OnDevice(to.address)) State::Get().Forget(to.address, width);
    } else {
      State::Get().Copy(to.address, from.address, width);
    }
    to.address += to.pitch;
    from.address += from.pitch;
  }
  return cudaSuccess;
}

cudaError_t Copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  return CopyRows({Address(to), bytes}, {Address(from), bytes}, bytes, 1, stream);
}

cudaError_t FillRows(Plane plane, int value, std::uint64_t width, std::uint64_t height,
                     cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (plane.address == 0) return Note(cudaErrorInvalidValue);
  const bool captured = Captured(FindStream(stream), GraphNode::kFill);
  for (std::uint64_t row = 0; row < height; ++row, plane.address += plane.pitch) {
    if (captured) {
      if (OnDevice(plane.address)) State::Get().Forget(plane.address, width);
    } else {
      State::Get().Fill(plane.address, static_cast<unsigned char>(value), width);
    }
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

VGPU_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return Copy(to, from, bytes, nullptr);
}

VGPU_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                     cudaStream_t stream) {
  return Copy(to, from, bytes, stream);
}

VGPU_API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return Copy(to, from, bytes, nullptr);
}

VGPU_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                         cudaStream_t stream) {
  return Copy(to, from, bytes, stream);
}

VGPU_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                  size_t width, size_t height, cudaMemcpyKind) {
  return CopyRows({Address(to), to_pitch}, {Address(from), from_pitch}, width, height, nullptr);
}

VGPU_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                       size_t from_pitch, size_t width, size_t height,
                                       cudaMemcpyKind, cudaStream_t stream) {
  return CopyRows({Address(to), to_pitch}, {Address(from), from_pitch}, width, height, stream);
}

VGPU_API cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return FillRows({Address(to), bytes}, value, bytes, 1, nullptr);
}

VGPU_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return FillRows({Address(to), bytes}, value, bytes, 1, stream);
}

VGPU_API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return FillRows({Address(to), pitch}, value, width, height, nullptr);
}

VGPU_API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width,
                                       size_t height, cudaStream_t stream) {
  return FillRows({Address(to), pitch}, value, width, height, stream);
}
