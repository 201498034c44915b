// cuDNN's plans for convolutions, asked of children; nothing is executed.
#ifndef MEMMODEL_SRC_CALIBRATE_ASK_PLANS_H_
#define MEMMODEL_SRC_CALIBRATE_ASK_PLANS_H_

#include <map>
#include <string>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/child_options.h"
#include "memmodel/job.h"
#include "memmodel/status.h"

namespace memmodel {

// The bytes of the workspace for each key (docs/cudnn.md), by up to `parallel` children at
// once; keys for which cuDNN has no plan are left out. Where the device is virtual, its
// stand-in answers, as it answers a job.
Result<std::map<std::string, Bytes, std::less<>>> AskWorkspaces(
    const ChildOptions& child, DeviceKind device, const std::vector<std::string>& keys,
    int parallel);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CALIBRATE_ASK_PLANS_H_
