// What the driver holds of the address space, as measured on an NVIDIA H200 (driver
// 580.159): free address space enumerated by allocations of 2 MiB after each of the
// occasions below. How it places what is asked for stands in address_chunks.cc.
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
#include "src/core/context_addresses.h"

namespace memmodel {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kArenaBytes = 414 * kMiB;

}  // namespace

ContextAddresses::ContextAddresses(std::uint64_t begin, std::uint64_t end) : chunks_(begin, end) {
  chunks_.AddChunk(32 * kMiB, 8 * kMiB);
  chunks_.Skip(64 * kMiB);
  arena_ = chunks_.AddChunk(kArenaBytes + 2 * kMiB, kArenaBytes);
}

void ContextAddresses::FirstKernel() {
  if (arena_ == 0) return;
  for (const std::uint64_t mib : {2, 26, 480}) static_cast<void>(Allocate(mib * kMiB));
  Free(arena_, kArenaBytes);
  arena_ = 0;
}

void ContextAddresses::CublasHandle() {
  if (!cublas_used_) static_cast<void>(Allocate(2 * kMiB));
  cublas_used_ = true;
  static_cast<void>(Allocate(64 * kMiB));
}

void ContextAddresses::CudnnHandle() {
  static_cast<void>(Allocate(8 * kMiB));
  static_cast<void>(Allocate(2 * kMiB));
}

}  // namespace memmodel
