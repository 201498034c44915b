// Communicators of the NCCL stand-in: who takes part, and the numbering of their
// operations, by which the ranks find each other's contributions.
#ifndef MEMMODEL_SRC_VGPU_NCCL_COMMUNICATORS_H_
#define MEMMODEL_SRC_VGPU_NCCL_COMMUNICATORS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "src/vgpu/nccl_exchange.h"

// The struct behind ncclComm_t.
struct ncclComm {
  std::string name;  // the same on all ranks, of no other communicator
  int ranks = 1;
  int rank = 0;
  int device = 0;

  std::mutex mutex;  // guards the counts
  std::uint64_t collectives = 0;
  std::uint64_t splits = 0;
  std::map<int, std::uint64_t> sent, received;  // by peer
};

namespace memmodel::vgpu {

const Exchange& TheExchange();

// "NAME.OPERATION.RANK".
std::string ContributionKey(const ncclComm& communicator, const std::string& operation, int rank);

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_NCCL_COMMUNICATORS_H_
