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
  const std::string* key = nullptr;  // of the convolution whose workspace this is; in the trace
};

struct TraceItems {
  std::int64_t batch = 0;
  std::vector<Item> items;
  // What kind of event this is, who asked, and where the block ends: everything
  // but the size and the position.
  std::vector<std::uint64_t> tokens;
  std::vector<std::size_t> part_begin;  // load, step 1, step 2, ...; and the end
};

// A convolution that has no workspace becomes a request of 0 bytes and its release,
// if `convolutions`: at another batch it may have one. Items refer to `trace`.
//
// Fails if the trace has no step, steps at several batches, an out-of-memory
// event, or releases of blocks that were not allocated.
Result<TraceItems> ItemsForModel(const Trace& trace, bool convolutions);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_ITEMS_H_
