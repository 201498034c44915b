// libnccl: communicators. The ranks of one are found by the unique id that the
// program itself hands around; nothing waits until known bytes are needed.
#include "src/vgpu/nccl_communicators.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/vgpu/export.h"
#include "src/vgpu/nccl_types.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

thread_local std::string last_error;

int Fail(int result, std::string message) {
  State::Get().Log("nccl: " + message);
  last_error = std::move(message);
  return result;
}

// A name that is fit for a file, from any bytes (FNV-1a, twice 64 bits).
std::string NameOf(const void* bytes, std::size_t size) {
  std::uint64_t a = 0xcbf29ce484222325u, b = 0x84222325cbf29ce4u;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(bytes)[i];
    a = (a ^ byte) * 0x100000001b3u;
    b = (b ^ byte ^ (a >> 32)) * 0x100000001b3u;
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

int Create(ncclComm** communicator, std::string name, int ranks, int rank) {
  if (communicator == nullptr || ranks < 1 || rank < 0 || rank >= ranks) {
    return Fail(kNcclInvalidArgument,
                "rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  if (TheExchange().connected() && ranks > State::Get().device_count()) {
    return Fail(kNcclInvalidUsage, "a communicator of " + std::to_string(ranks) + " ranks on " +
                                       std::to_string(State::Get().device_count()) +
                                       " virtual GPUs: memmodel run --gpus " +
                                       std::to_string(ranks));
  }
  auto* made = new ncclComm;
  made->name = std::move(name);
  made->ranks = ranks;
  made->rank = rank;
  made->device = State::CurrentDevice();
  *communicator = made;
  return kNcclSuccess;
}

// What a rank says in a split: its color and key.
struct SplitWish {
  int color, key, rank;
};

// The wishes of all ranks of `parent`, by key, then rank.
std::vector<SplitWish> ExchangeWishes(ncclComm& parent, const std::string& operation, int color,
                                      int key) {
  std::vector<SplitWish> wishes;
  const std::string mine(reinterpret_cast<const char*>(&color), sizeof color);
  TheExchange().Post(ContributionKey(parent, operation, parent.rank),
                     mine + std::string(reinterpret_cast<const char*>(&key), sizeof key));
  for (int rank = 0; rank < parent.ranks; ++rank) {
    SplitWish wish{color, rank == parent.rank ? key : rank, rank};
    if (rank != parent.rank) {
      const Contribution theirs = TheExchange().Wait(ContributionKey(parent, operation, rank));
      if (theirs && theirs->size() == sizeof color + sizeof key) {
        std::memcpy(&wish.color, theirs->data(), sizeof color);
        std::memcpy(&wish.key, theirs->data() + sizeof color, sizeof key);
      }
    }
    wishes.push_back(wish);
  }
  std::stable_sort(wishes.begin(), wishes.end(),
                   [](const SplitWish& a, const SplitWish& b) { return a.key < b.key; });
  return wishes;
}

}  // namespace

const Exchange& TheExchange() {
  static const char* const folder = std::getenv("MEMMODEL_VGPU_EXCHANGE");
  static const auto* const exchange = new Exchange(folder == nullptr ? "" : folder);
  return *exchange;
}

std::string ContributionKey(const ncclComm& communicator, const std::string& operation, int rank) {
  return communicator.name + "." + operation + "." + std::to_string(rank);
}

}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {
#pragma GCC visibility push(default)

int ncclGetVersion(int* version) {
  *version = kNcclVersion;
  return kNcclSuccess;
}

int ncclGetUniqueId(NcclUniqueId* id) {
  if (getrandom(id->internal, sizeof id->internal, 0) !=
      static_cast<ssize_t>(sizeof id->internal)) {
    return Fail(kNcclInvalidUsage, "no random bytes for a unique id");
  }
  return kNcclSuccess;
}

int ncclCommInitRank(ncclComm** communicator, int ranks, NcclUniqueId id, int rank) {
  return Create(communicator, NameOf(&id, sizeof id), ranks, rank);
}

int ncclCommInitRankConfig(ncclComm** communicator, int ranks, NcclUniqueId id, int rank, void*) {
  return ncclCommInitRank(communicator, ranks, id, rank);
}

int ncclCommInitRankScalable(ncclComm** communicator, int ranks, int rank, int ids,
                             NcclUniqueId* id, void*) {
  if (ids < 1 || id == nullptr) return Fail(kNcclInvalidArgument, "no unique id");
  return ncclCommInitRank(communicator, ranks, id[0], rank);
}

int ncclCommInitAll(ncclComm** communicators, int count, const int* devices) {
  NcclUniqueId id;
  if (const int result = ncclGetUniqueId(&id); result != kNcclSuccess) return result;
  for (int rank = 0; rank < count; ++rank) {
    if (const int result = ncclCommInitRank(&communicators[rank], count, id, rank);
        result != kNcclSuccess) {
      return result;
    }
    communicators[rank]->device = devices == nullptr ? rank : devices[rank];
  }
  return kNcclSuccess;
}

int ncclCommSplit(ncclComm* parent, int color, int key, ncclComm** communicator, void*) {
  std::string operation;
  {
    const std::lock_guard<std::mutex> lock(parent->mutex);
    operation = "split" + std::to_string(parent->splits++);
  }
  const std::vector<SplitWish> wishes = ExchangeWishes(*parent, operation, color, key);
  *communicator = nullptr;
  if (color == kNcclSplitNoColor) return kNcclSuccess;
  int ranks = 0, rank = 0;
  for (const SplitWish& wish : wishes) {
    if (wish.color != color) continue;
    if (wish.rank == parent->rank) rank = ranks;
    ++ranks;
  }
  const std::string seed = ContributionKey(*parent, operation, color);
  return Create(communicator, NameOf(seed.data(), seed.size()), ranks, rank);
}

int ncclCommShrink(ncclComm* parent, int* excluded, int count, ncclComm** communicator, void*,
                   int) {
  std::string seed = parent->name + ".shrink";
  int rank = parent->rank;
  for (int i = 0; i < count; ++i) {
    seed += "." + std::to_string(excluded[i]);
    if (excluded[i] < parent->rank) --rank;
  }
  return Create(communicator, NameOf(seed.data(), seed.size()), parent->ranks - count, rank);
}

int ncclCommFinalize(ncclComm*) { return kNcclSuccess; }
int ncclCommDestroy(ncclComm* communicator) {
  delete communicator;
  return kNcclSuccess;
}
int ncclCommAbort(ncclComm* communicator) { return ncclCommDestroy(communicator); }

int ncclCommGetAsyncError(ncclComm*, int* error) {
  *error = kNcclSuccess;
  return kNcclSuccess;
}
int ncclCommCount(const ncclComm* communicator, int* count) {
  *count = communicator->ranks;
  return kNcclSuccess;
}
int ncclCommUserRank(const ncclComm* communicator, int* rank) {
  *rank = communicator->rank;
  return kNcclSuccess;
}
int ncclCommCuDevice(const ncclComm* communicator, int* device) {
  *device = communicator->device;
  return kNcclSuccess;
}

const char* ncclGetErrorString(int result) {
  switch (result) {
    case kNcclSuccess:
      return "no error";
    case kNcclInvalidArgument:
      return "invalid argument";
    default:
      return "invalid usage";
  }
}
const char* ncclGetLastError(ncclComm*) { return last_error.c_str(); }

#pragma GCC visibility pop
}  // extern "C"
