// The largest batch as the core's own allocator simulator sees it: where to look
// first. What is answered is what was run (src/predict/largest_batch.h).
#ifndef MEMMODEL_SRC_PREDICT_GUESS_H_
#define MEMMODEL_SRC_PREDICT_GUESS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "memmodel/bytes.h"
#include "memmodel/trace.h"

namespace memmodel {

struct GuessLimits {
  std::string alloc_conf;
  Bytes target_reserved = 0;             // reserved memory within the target
  Bytes capacity = 0;                    // what all segments together can have
  std::optional<Bytes> allocator_limit;  // as set_per_process_memory_fraction
};

// From traces of one job at two or more batches: every request's size as a
// function of the batch (memmodel/memory_model.h), simulated batch by batch. The largest
// that stays within target_reserved without a retry; nothing if the traces do not make a
// model.
std::optional<std::int64_t> GuessLargest(std::span<const Trace> traces, const GuessLimits& limits);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_GUESS_H_
