// Each block of a trace from its request to its release.
#ifndef MEMMODEL_SRC_CLASSIFY_LIVES_H_
#define MEMMODEL_SRC_CLASSIFY_LIVES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "memmodel/breakdown.h"

namespace memmodel {

struct Life {
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t made = 0;         // event indices
  std::uint32_t freed = kNever;   // when the release was asked
  Bytes bytes = 0;                // of the block
  OperatorId made_in = OperatorId::kNone;
  OperatorId freed_in = OperatorId::kNone;
  ModuleId module = ModuleId::kNone;
  TensorRole role = TensorRole::kNone;
  TextId name = TextId::kNone;    // of the tensor, if tagged
  std::int16_t step = -1;
  Phase phase = Phase::kNone;
  std::uint32_t forward_end = kNever;  // made in forward: where that forward ends
};

struct History {
  std::vector<Life> lives;  // in the order of their requests
  std::vector<PhaseMemory> phases;
  Bytes allocated_peak = 0;
  std::uint32_t peak_event = Life::kNever;  // the request that first reached it
  Bytes reserved_peak = 0;
};

// Follows all events. Errors as for Classify.
Result<History> FollowBlocks(const Trace& trace, const ClassifyOptions& options);

// What a block is, by its whole life; see classify.cc.
MemoryKind KindOf(const Life& life);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CLASSIFY_LIVES_H_
