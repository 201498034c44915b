// What must be on the card whatever else is: for files without a program.
#ifndef MEMMODEL_SRC_PREDICT_CERTAIN_H_
#define MEMMODEL_SRC_PREDICT_CERTAIN_H_

#include "memmodel/job.h"
#include "src/child/protocol.h"

namespace memmodel {

struct CertainBytes {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer_state; }
};

// From the sizes of the file's tensors. Optimizers whose state is smaller than a
// multiple of the parameters (adafactor) count with what is certain: nothing.
CertainBytes CertainMemory(const Job& job, const LoadedModel& loaded);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_CERTAIN_H_
