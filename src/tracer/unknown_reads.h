// Reads of bytes that only a kernel could have written (docs/training_step.md).
#ifndef MEMMODEL_SRC_TRACER_UNKNOWN_READS_H_
#define MEMMODEL_SRC_TRACER_UNKNOWN_READS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memmodel::tracer {

struct UnknownRead {
  std::string op;      // "aten::nonzero"
  std::string module;  // "roi_heads"; "" if unknown or the root
  std::uint64_t bytes = 0;
  int count = 0;       // reads by the same operator in the same module
  std::string where;   // "forward", "backward", "optimizer"
  std::string answer;  // what was answered in place of the value; "" for zero
};

struct UnknownReads {
  std::vector<UnknownRead> deciding;  // what comes after depends on a made-up value
  std::vector<UnknownRead> harmless;  // the value cannot change an allocation
};

// Starts listening to the virtual GPU, if there is one in the process. With
// `count_fraction` set, element counts that kernels would have found (nonzero,
// masked_select, ...) are answered with that share of the largest possible count.
void WatchUnknownReads(std::optional<double> count_fraction);

// For the phase in UnknownRead::where; kept by pointer, give literals.
void SetUnknownReadPhase(const char* phase);

UnknownReads TakeUnknownReads();

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_UNKNOWN_READS_H_
