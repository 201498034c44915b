// What the driver holds of the address space, as measured on an NVIDIA H200 (driver
// 580.159): free address space enumerated by allocations of 2 MiB after each of the
// occasions below. How it places what is asked for stands in
// src/core/address_chunks.cc.
//
// 1. A new context has, from above: a chunk of 32 MiB whose upper 24 MiB are free,
//    64 MiB that are not in use here, and a chunk of 416 MiB whose last 2 MiB are
//    free. The driver holds the other 414 MiB.
// 2. At the first kernel launch the driver takes 2, 26 and 480 MiB by its rules and
//    gives the 414 MiB back. A cuBLAS handle takes 64 MiB, the first one 2 MiB more, a
//    cuDNN handle 8 and 2 MiB, likewise.
//
// Example, from a ResNet-50: the first segment of 2 MiB lies at the end of the
// 416 MiB, three more in the gap of 24 MiB. 20 MiB do not fit there (18 MiB are left)
// and open a chunk below the 416 MiB, whose last 12 MiB take the next segments of
// 2 MiB. Once a kernel has run, segments lie in the 414 MiB.
//
// What is left are host mappings of the process, which share the address space.
#include "src/vgpu/address_space.h"

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kArenaBytes = 414 * kMiB;
constexpr std::uint64_t kDeviceSpace = (kReservationsBegin - kSpaceBegin) / kMostDevices;

std::uint64_t Bottom(int device) {
  return kSpaceBegin + static_cast<std::uint64_t>(device) * kDeviceSpace;
}

}  // namespace

MallocPlacer::MallocPlacer(int device) : chunks_(Bottom(device), Bottom(device) + kDeviceSpace) {
  chunks_.AddChunk(32 * kMiB, 8 * kMiB);
  chunks_.Skip(64 * kMiB);
  arena_ = chunks_.AddChunk(kArenaBytes + 2 * kMiB, kArenaBytes);
}

void MallocPlacer::FirstKernel() {
  for (const std::uint64_t mib : {2, 26, 480}) static_cast<void>(Allocate(mib * kMiB));
  Free(arena_, kArenaBytes);
}

void MallocPlacer::CublasHandle(bool first) {
  if (first) static_cast<void>(Allocate(2 * kMiB));
  static_cast<void>(Allocate(64 * kMiB));
}

void MallocPlacer::CudnnHandle() {
  static_cast<void>(Allocate(8 * kMiB));
  static_cast<void>(Allocate(2 * kMiB));
}

ReservationPlacer::ReservationPlacer() {
  gaps_.Add(kReservationsBegin, kSpaceEnd - kReservationsBegin);
}

std::uint64_t ReservationPlacer::Reserve(std::uint64_t bytes, std::uint64_t alignment,
                                         std::uint64_t wanted) {
  if (bytes == 0 || bytes > kSpaceEnd - kReservationsBegin) return 0;
  if (wanted >= kReservationsBegin && wanted % kPageBytes == 0 && wanted < kSpaceEnd &&
      gaps_.TakeAt(wanted, bytes)) {
    return wanted;
  }
  return gaps_.TakeHighest(bytes, alignment < kPageBytes ? kPageBytes : alignment);
}

void ReservationPlacer::Release(std::uint64_t address, std::uint64_t bytes) {
  gaps_.Add(address, bytes);
}

}  // namespace memmodel::vgpu
