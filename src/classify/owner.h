// Which module a parameter belongs to.
#ifndef MEMMODEL_SRC_CLASSIFY_OWNER_H_
#define MEMMODEL_SRC_CLASSIFY_OWNER_H_

#include <string>
#include <string_view>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel {

// The path in `modules` of the owner of `parameter`, "layer1.0.conv1" for
// "layer1.0.conv1.weight". TorchScript's call stack leaves out containers that are
// not called: the owner of "transformer.h.0.ln_1.weight" is then found as
// "transformer.0.ln_1". The parameter's own path if no module fits.
std::string OwnerOf(const std::vector<ModuleInfo>& modules, std::string_view parameter);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CLASSIFY_OWNER_H_
