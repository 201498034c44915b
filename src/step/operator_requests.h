// What memory an operator asks for by itself, found by calling it.
#ifndef MEMMODEL_SRC_STEP_OPERATOR_REQUESTS_H_
#define MEMMODEL_SRC_STEP_OPERATOR_REQUESTS_H_

#include <optional>
#include <string>
#include <vector>

#include "memmodel/bytes.h"

namespace memmodel::step {

// Calls the operator of `key` (docs/trace_format.md) on empty tensors of the current
// device, on the virtual one with no effect but its requests. Returns the bytes of those
// that it released before it ended, in order; nothing for a key that cannot be called.
// One thread only.
std::optional<std::vector<Bytes>> RequestsOf(const std::string& key);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_OPERATOR_REQUESTS_H_
