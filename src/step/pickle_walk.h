// What a torch.save file holds, read without executing any of it.
#ifndef MEMMODEL_SRC_STEP_PICKLE_WALK_H_
#define MEMMODEL_SRC_STEP_PICKLE_WALK_H_

#include <string>
#include <string_view>

#include "memmodel/status.h"
#include "src/step/answer.h"
#include "src/step/archive.h"

namespace memmodel::step {

// Walks the opcodes of a pickle with a stack of inert values. Tensors are known by
// the function that would rebuild them, torch._utils._rebuild_tensor_v2; nothing is
// imported or called. `name` is for messages.
Result<StateDictAnswer> WalkPickle(std::string_view pickle, const std::string& name);

// The same for an archive of kind kPickle or kLegacyPickle.
Result<StateDictAnswer> DescribePickle(const std::string& path, const Archive& archive);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PICKLE_WALK_H_
