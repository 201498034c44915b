// Plans of convolutions and requests of operators, asked of several children at once.
#ifndef MEMMODEL_SRC_CALIBRATE_SIDE_BY_SIDE_H_
#define MEMMODEL_SRC_CALIBRATE_SIDE_BY_SIDE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "memmodel/child_options.h"
#include "memmodel/job.h"
#include "memmodel/status.h"
#include "src/calibrate/figures.h"

namespace memmodel {

struct Questions {
  std::vector<std::string> plans;      // keys of convolutions (docs/cudnn.md)
  std::vector<std::string> operators;  // keys of calls (docs/trace_format.md)
};

// The answers in the order of the questions, by up to `parallel` children at once, each of
// which has about `least_share` to answer or more. `doing` is for messages.
Result<CalibrationAnswer> AskSideBySide(const ChildOptions& child, DeviceKind device,
                                        const Questions& questions, int parallel,
                                        std::size_t least_share, const std::string& doing);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CALIBRATE_SIDE_BY_SIDE_H_
