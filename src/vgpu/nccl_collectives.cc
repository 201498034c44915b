// libnccl: collectives and point-to-point operations. They run nothing; the known
// bytes of small ones are exchanged between the ranks, so that programs that compare
// shapes or hand objects around go on as on real GPUs.
//
// An operation has two halves: to post what this rank contributes, and to wait for
// the others' contributions and write the result. Inside ncclGroupStart/End all
// posts come before all waits, since a thread may speak for several ranks.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/vgpu/export.h"
#include "src/vgpu/nccl_communicators.h"
#include "src/vgpu/nccl_reduce.h"
#include "src/vgpu/nccl_types.h"
#include "src/vgpu/shadow_bytes.h"
#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

std::uint64_t Address(const void* pointer, std::size_t offset = 0) {
  return reinterpret_cast<std::uint64_t>(pointer) + offset;
}

// The bytes at `from`, or as many of them from the start on as are known: objects
// are sent in tensors that are longer than what was copied to them.
Contribution Known(const void* from, std::size_t bytes) {
  std::string text(bytes, '\0');
  if (bytes == 0 || State::Get().Peek(Address(from), bytes, text.data())) return text;
  std::size_t known = 0, unknown = bytes;
  while (unknown - known > 1) {
    const std::size_t middle = known + (unknown - known) / 2;
    (State::Get().Peek(Address(from), middle, text.data()) ? known : unknown) = middle;
  }
  if (known == 0) return std::nullopt;
  text.resize(known);
  State::Get().Peek(Address(from), known, text.data());
  return text;
}

void Store(const void* to, std::size_t offset, std::size_t size, const Contribution& bytes) {
  if (!bytes || bytes->size() < size) State::Get().Forget(Address(to, offset), size);
  if (!bytes) return;
  size = std::min(size, bytes->size());
  for (std::size_t at = 0; at < size; at += ShadowBytes::kLargestCopy) {
    const std::size_t part = std::min<std::size_t>(ShadowBytes::kLargestCopy, size - at);
    State::Get().Copy(Address(to, offset + at), Address(bytes->data(), at), part);
  }
}

// What all ranks contributed to one operation, this rank's own without a detour.
class Contributions {
 public:
  Contributions(ncclComm* communicator, std::string operation, Contribution own)
      : communicator_(communicator), operation_(std::move(operation)), own_(std::move(own)) {}

  void Post() const {
    TheExchange().Post(ContributionKey(*communicator_, operation_, communicator_->rank), own_);
  }
  [[nodiscard]] Contribution Of(int rank) const {
    if (rank == communicator_->rank || !TheExchange().connected()) return own_;
    return TheExchange().Wait(ContributionKey(*communicator_, operation_, rank));
  }

 private:
  ncclComm* communicator_;
  std::string operation_;
  Contribution own_;
};

struct Operation {
  std::function<void()> post, finish;
};
thread_local int group_depth = 0;
thread_local std::vector<Operation> group;

void Finish(std::vector<Operation> operations) {
  for (const Operation& operation : operations) operation.post();
  // Counted between reading and writing: what was set before the launch is no
  // longer known after it, what the ranks exchanged is.
  State::Get().CountLaunch();
  for (const Operation& operation : operations) operation.finish();
}

int Enqueue(std::function<void()> post, std::function<void()> finish) {
  std::vector<Operation> one;
  one.push_back({std::move(post), std::move(finish)});
  if (group_depth > 0) {
    group.push_back(std::move(one.front()));
  } else {
    Finish(std::move(one));
  }
  return kNcclSuccess;
}

// Numbers the collective; both sides count alike, since the program must issue
// the same collectives on all ranks.
std::string NextCollective(ncclComm* communicator) {
  const std::lock_guard<std::mutex> lock(communicator->mutex);
  return std::to_string(communicator->collectives++);
}

// A collective to which this rank contributes `send` bytes and whose result here has
// `receive`. `each` is the most that a rank contributes, the same figure on all ranks:
// all or none of them exchange. `combine` makes the result of what the ranks sent.
template <typename Combine>
int Collective(ncclComm* communicator, std::size_t each, const void* from, std::size_t send,
               void* to, std::size_t receive, Combine combine) {
  const std::string operation = NextCollective(communicator);
  if (each * static_cast<std::uint64_t>(communicator->ranks) > Exchange::kLargest) {
    State::Get().CountLaunch();
    if (to != nullptr) State::Get().Forget(Address(to), receive);
    return kNcclSuccess;
  }
  auto shared = std::make_shared<std::optional<Contributions>>();
  return Enqueue(
      [=] {
        shared->emplace(communicator, operation, Known(from, send));
        (*shared)->Post();
      },
      [=] { combine(**shared); });
}

std::optional<std::vector<std::string>> All(const Contributions& contributions, int ranks) {
  std::vector<std::string> all;
  bool known = true;
  for (int rank = 0; rank < ranks; ++rank) {  // waits for every rank, known or not
    Contribution one = contributions.Of(rank);
    known = known && one.has_value();
    if (known) all.push_back(*std::move(one));
  }
  return known ? std::optional(std::move(all)) : std::nullopt;
}

}  // namespace
}  // namespace memmodel::vgpu

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

extern "C" {
#pragma GCC visibility push(default)

int ncclGroupStart() {
  ++group_depth;
  return kNcclSuccess;
}

int ncclGroupEnd() {
  if (group_depth > 0 && --group_depth == 0) Finish(std::exchange(group, {}));
  return kNcclSuccess;
}

int ncclGroupSimulateEnd(void*) { return ncclGroupEnd(); }

int ncclAllGather(const void* from, void* to, std::size_t count, int type, ncclComm* communicator,
                  void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const int ranks = communicator->ranks;
  return Collective(communicator, bytes, from, bytes, to, bytes * static_cast<std::size_t>(ranks),
                    [=](const Contributions& sent) {
                      for (int rank = 0; rank < ranks; ++rank) {
                        Store(to, bytes * static_cast<std::size_t>(rank), bytes, sent.Of(rank));
                      }
                    });
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation,
                  ncclComm* communicator, void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const int ranks = communicator->ranks;
  return Collective(communicator, bytes, from, bytes, to, bytes, [=](const Contributions& sent) {
    const auto all = All(sent, ranks);
    Store(to, 0, bytes, all ? Reduce(*all, type, operation) : std::nullopt);
  });
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int operation, int root,
               ncclComm* communicator, void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const int ranks = communicator->ranks;
  const bool mine = communicator->rank == root;
  return Collective(communicator, bytes, from, bytes, mine ? to : nullptr, bytes,
                    [=](const Contributions& sent) {
                      if (!mine) return;
                      const auto all = All(sent, ranks);
                      Store(to, 0, bytes, all ? Reduce(*all, type, operation) : std::nullopt);
                    });
}

int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int operation,
                      ncclComm* communicator, void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const int ranks = communicator->ranks;
  const std::size_t offset = bytes * static_cast<std::size_t>(communicator->rank);
  return Collective(
      communicator, bytes * static_cast<std::size_t>(ranks), from,
      bytes * static_cast<std::size_t>(ranks), to, bytes, [=](const Contributions& sent) {
        const auto all = All(sent, ranks);
        Contribution whole = all ? Reduce(*all, type, operation) : std::nullopt;
        if (whole)
          whole = whole->size() < offset + bytes ? Contribution() : whole->substr(offset, bytes);
        Store(to, 0, bytes, whole);
      });
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                  ncclComm* communicator, void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const bool sends = communicator->rank == root || !TheExchange().connected();
  return Collective(communicator, bytes, sends ? from : nullptr, sends ? bytes : 0, to, bytes,
                    [=](const Contributions& sent) { Store(to, 0, bytes, sent.Of(root)); });
}

int ncclBcast(void* buffer, std::size_t count, int type, int root, ncclComm* communicator,
              void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, ncclComm* communicator,
                 void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  const int ranks = communicator->ranks;
  const std::size_t whole = bytes * static_cast<std::size_t>(ranks);
  const std::size_t offset = bytes * static_cast<std::size_t>(communicator->rank);
  return Collective(communicator, whole, from, whole, to, whole, [=](const Contributions& sent) {
    for (int rank = 0; rank < ranks; ++rank) {
      Contribution one = sent.Of(rank);
      if (one) one = one->size() < offset + bytes ? Contribution() : one->substr(offset, bytes);
      Store(to, bytes * static_cast<std::size_t>(rank), bytes, one);
    }
  });
}

int ncclSend(const void* from, std::size_t count, int type, int peer, ncclComm* communicator,
             void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  std::string operation;
  {
    const std::lock_guard<std::mutex> lock(communicator->mutex);
    operation = "to" + std::to_string(peer) + "." + std::to_string(communicator->sent[peer]++);
  }
  if (bytes > Exchange::kLargest) return Enqueue([] {}, [] {});
  return Enqueue(
      [=] {
        TheExchange().Post(ContributionKey(*communicator, operation, communicator->rank),
                           Known(from, bytes));
      },
      [] {});
}

int ncclRecv(void* to, std::size_t count, int type, int peer, ncclComm* communicator, void*) {
  const std::size_t bytes = count * NcclTypeBytes(type);
  std::string operation;
  {
    const std::lock_guard<std::mutex> lock(communicator->mutex);
    operation = "to" + std::to_string(communicator->rank) + "." +
                std::to_string(communicator->received[peer]++);
  }
  return Enqueue([] {},
                 [=] {
                   const bool exchanged = bytes <= Exchange::kLargest;
                   Store(to, 0, bytes,
                         exchanged
                             ? TheExchange().Wait(ContributionKey(*communicator, operation, peer))
                             : std::nullopt);
                 });
}

int ncclRedOpCreatePreMulSum(int* operation, void*, int, int, ncclComm*) {
  *operation = kNcclAverage + 1;  // its results are never known
  return kNcclSuccess;
}
int ncclRedOpDestroy(int, ncclComm*) { return kNcclSuccess; }

#pragma GCC visibility pop
}  // extern "C"
