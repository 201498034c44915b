// The events of one trace that a model keeps, with tokens by which those of
// traces at other batches are found to be the same.
#ifndef MEMMODEL_SRC_MODEL_ITEMS_H_
#define MEMMODEL_SRC_MODEL_ITEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel {

struct Item {
  EventKind kind = EventKind::kMarker;
  bool completes = true;
  TensorRole role = TensorRole::kNone;
  std::int32_t stream = 0;
  std::int32_t block = -1;  // kFree, kFreeCompleted: the allocating item
  Bytes size = 0;
  OperatorId op = OperatorId::kNone;
  ModuleId module = ModuleId::kNone;
  TextId text = TextId::kNone;
  ContextOccasion occasion = ContextOccasion::kFirstKernel;
  const std::string* key = nullptr;  // of the call whose workspace this is; in the trace
  std::uint8_t slot = 0, slots = 1;  // which of how many requests of that call
};

struct TraceItems {
  std::int64_t batch = 0;
  std::vector<Item> items;
  // What kind of event this is, who asked, and where the block ends: everything
  // but the size and the position.
  std::vector<std::uint64_t> tokens;
  std::vector<std::size_t> part_begin;  // load, step 1, step 2, ...; and the end
};

// If `calls`, convolutions and operators are looked at that the trace tells of. One that
// has no workspace becomes requests of 0 bytes and their releases: at another batch it
// may have one. Items refer to `trace`.
//
// Requests that a reduction makes for itself, or none of them: the parts of its blocks of
// threads, and their semaphores (gpu_reduce_kernel of torch's Reduce.cuh).
inline constexpr std::size_t kReductionRequests = 2;

// Fails if the trace has no step, steps at several batches, an out-of-memory
// event, or releases of blocks that were not allocated.
Result<TraceItems> ItemsForModel(const Trace& trace, bool calls);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_ITEMS_H_
