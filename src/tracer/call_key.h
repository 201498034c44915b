// What a call of an operator is, in a line of text: enough to make it again.
#ifndef MEMMODEL_SRC_TRACER_CALL_KEY_H_
#define MEMMODEL_SRC_TRACER_CALL_KEY_H_

#include <ATen/record_function.h>

#include <string>

namespace memmodel::tracer {

// The key of docs/trace_format.md, of reductions; "" for other operators, and where an
// argument has no text.
std::string CallKey(const at::RecordFunction& function);

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_CALL_KEY_H_
