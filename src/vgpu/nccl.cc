// libnccl: communicators are kept, collectives accepted; the known bytes of
// small tensors move as if every rank had sent what this one did.
#include <cuda_runtime_api.h>

#include <cstring>

#include "src/vgpu/export.h"
#include "src/vgpu/state.h"

// From nccl.h 2.28, which not every build machine has.
struct ncclComm {
  int ranks = 1;
  int rank = 0;
  int device = 0;
};
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
using ncclConfig_t = void;
enum ncclResult_t { ncclSuccess = 0 };
using ncclRedOp_t = int;
enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
};
constexpr int kNcclVersion = 22809;

namespace memmodel::vgpu {
namespace {

std::size_t TypeBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void Move(const void* from, void* to, std::size_t bytes) {
  if (from != to) {
    State::Get().Copy(reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from),
                      bytes);
  }
}

ncclResult_t Create(ncclComm_t* communicator, int ranks, int rank) {
  *communicator =
      new ncclComm{.ranks = ranks, .rank = rank, .device = State::CurrentDevice()};
  return ncclSuccess;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {
#pragma GCC visibility push(default)

ncclResult_t ncclGetVersion(int* version) {
  *version = kNcclVersion;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 7, sizeof *id);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank) {
  return Create(communicator, ranks, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId, int rank,
                                    ncclConfig_t*) {
  return Create(communicator, ranks, rank);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int ranks, int rank, int,
                                      ncclUniqueId*, ncclConfig_t*) {
  return Create(communicator, ranks, rank);
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int, int, ncclComm_t* communicator, ncclConfig_t*) {
  return Create(communicator, parent->ranks, parent->rank);
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  *device = communicator->device;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "not available on a virtual GPU";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t) {
  State::Get().CountLaunch();
  const std::size_t bytes = count * TypeBytes(type);
  for (int rank = 0; rank < communicator->ranks; ++rank) {
    Move(from, static_cast<char*>(to) + static_cast<std::size_t>(rank) * bytes, bytes);
  }
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t, cudaStream_t) {
  State::Get().CountLaunch();
  Move(from, to, count * TypeBytes(type));
  return ncclSuccess;
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int,
                           ncclComm_t, cudaStream_t) {
  State::Get().CountLaunch();
  Move(from, to, count * TypeBytes(type));
  return ncclSuccess;
}

#pragma GCC visibility pop
}  // extern "C"
