// What a process holds on the card beside the memory that PyTorch reserves.
#ifndef MEMMODEL_SRC_PREDICT_CONTEXT_H_
#define MEMMODEL_SRC_PREDICT_CONTEXT_H_

#include <string>

#include "memmodel/breakdown.h"
#include "memmodel/device.h"
#include "memmodel/trace.h"
#include "src/child/protocol.h"

namespace memmodel {

struct ContextEstimate {
  Bytes low = 0;
  Bytes value = 0;
  Bytes high = 0;
  std::string basis;  // one sentence
};

// How many handles of each library a run opened; -1 if it is not known.
struct LibraryHandles {
  std::int64_t cublas = -1;
  std::int64_t cudnn = -1;
};

// From the child's own count, else from the trace: PyTorch keeps one cuBLAS
// workspace for each handle, and calls cuDNN from operators that carry its name.
LibraryHandles CountHandles(const ProbeAnswer& answer, const Trace* trace);

// ContextFigures's rule. Handles that are not known count as two, one for each
// thread of a training step, and as none for the low end.
ContextEstimate EstimateContext(const Device& device, const LibraryHandles& handles);

// Of a run: what was measured on a real GPU, else the rule for the handles that the run
// opened. `trace` may be null.
ContextEstimate ContextOf(const Device& device, const ProbeAnswer& answer, const Trace* trace);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_CONTEXT_H_
