// A program's requests at one batch, through the allocator simulator.
#ifndef MEMMODEL_SRC_MODEL_SIMULATE_REQUESTS_H_
#define MEMMODEL_SRC_MODEL_SIMULATE_REQUESTS_H_

#include <span>

#include "memmodel/allocator_settings.h"
#include "src/model/program.h"

namespace memmodel {

struct SimulatedPeaks {
  Bytes allocated = 0;
  Bytes reserved = 0;
};

// Runs the events that sample `sample` has, with `sizes[r]` bytes for rule r, on
// a device without a limit.
SimulatedPeaks SimulateRequests(const Program& program, std::size_t sample,
                                std::span<const Bytes> sizes, const AllocatorSettings& settings);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_SIMULATE_REQUESTS_H_
