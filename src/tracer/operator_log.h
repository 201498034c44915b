// What is running now, on each thread: the innermost operator and module.
//
// Built on at::RecordFunction's global callbacks. Operators of the backward
// pass carry the module of the forward operator that made them: autograd gives
// both the same sequence number, together with the forward thread's id.
#ifndef MEMMODEL_SRC_TRACER_OPERATOR_LOG_H_
#define MEMMODEL_SRC_TRACER_OPERATOR_LOG_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel::tracer {

enum class OperatorDetail {
  kNameOnly,  // the last operator's name, for messages: a few ns an operator
  kFull,      // operator and module ids for every event of a trace
};

// What started last, for whoever finds the process dead: texts in memory that two
// processes may share. The module is kept under kFull alone.
struct LastStarted {
  char op[128] = {};
  char module[384] = {};
};

// Starts watching; once a process, before the work to be watched. `last` may be null.
void WatchOperators(OperatorDetail detail, LastStarted* last);

// The innermost operator and module of the calling thread, as indices into
// Operators() and Modules(); kNone outside of all, or under kNameOnly.
OperatorId CurrentOperator();
ModuleId CurrentModule();

// The same as text: "aten::convolution", "layer1.0.conv1"; "" if unknown. Works
// under kNameOnly too: there the module is known in forward alone.
std::string CurrentOperatorName();
std::string CurrentModulePath();
// Elements of the first tensor argument of the innermost operator, its argument
// of most elements; -1 if unknown. Under kFull only.
std::int64_t CurrentInputElements();

// Names found so far. Not for use while other threads run operators.
const std::vector<std::string>& Operators();
const std::vector<ModuleInfo>& Modules();

// For interpreters that are not TorchScript: says which module the calling thread
// is in from now on (path "" is the root), until the next call. An empty type
// and path with `inside` false: in none.
void SetModule(std::string_view type, std::string_view path, bool inside = true);

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_OPERATOR_LOG_H_
