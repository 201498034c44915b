// The workspaces of convolutions and operators, asked of children; no network is run.
#ifndef MEMMODEL_SRC_CALIBRATE_ASK_WORKSPACES_H_
#define MEMMODEL_SRC_CALIBRATE_ASK_WORKSPACES_H_

#include <string>
#include <vector>

#include "memmodel/child_options.h"
#include "memmodel/job.h"
#include "memmodel/memory_model.h"
#include "memmodel/status.h"

namespace memmodel {

// Answers to keys of MemoryModel::WorkspaceKeys, by up to `parallel` children at once; what
// cuDNN has no plan for, or torch cannot call, is left out. Where the device is virtual, its
// stand-ins answer, as they answer a job.
Result<WorkspaceAnswers> AskWorkspaces(const ChildOptions& child, DeviceKind device,
                                       const std::vector<std::string>& keys, int parallel);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CALIBRATE_ASK_WORKSPACES_H_
