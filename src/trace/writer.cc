#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "memmodel/trace.h"
#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

void AppendEvent(const Trace& trace, const Event& event, bool with_ids, std::string* out) {
  char line[128];
  if (event.kind == EventKind::kMarker) {
    out->append("# ").append(trace.Text(event.text)).push_back('\n');
    return;
  }
  if (event.kind == EventKind::kContext) {
    out->append("d ").append(OccasionName(event.occasion)).push_back('\n');
    return;
  }
  if (event.kind == EventKind::kTag) {
    if (!with_ids) return;
    std::snprintf(line, sizeof line, " %" PRIx64 " %" PRId64 " ", event.address, event.size);
    out->append("t ").append(RoleName(event.role)).append(line);
    out->append(trace.Text(event.text)).push_back('\n');
    return;
  }
  std::snprintf(line, sizeof line, "%c %" PRIx64 " %" PRId64 " %d", static_cast<char>(event.kind),
                event.address, event.size, event.stream);
  out->append(line);
  if (with_ids) {
    std::snprintf(line, sizeof line, " %d %d", static_cast<int>(event.op),
                  static_cast<int>(event.module));
    out->append(line);
  }
  out->push_back('\n');
}

void AppendConvolution(const ConvolutionCall& call, std::string* out) {
  char line[64];
  std::snprintf(line, sizeof line, "w %" PRIx64 " %d %d ", call.workspace,
                static_cast<int>(call.op), static_cast<int>(call.module));
  out->append(line).append(call.key).push_back('\n');
}

void AppendCall(const OperatorCall& call, std::string* out) {
  char line[64];
  std::snprintf(line, sizeof line, "r %zu %d %d ", call.events, static_cast<int>(call.op),
                static_cast<int>(call.module));
  out->append(line).append(call.key).push_back('\n');
}

}  // namespace

std::string FormatTrace(const Trace& trace, TraceDetail detail) {
  const bool full = detail == TraceDetail::kFull;
  std::string out;
  out.reserve(trace.events.size() * 40 + 4096);
  if (full) {
    out.append("! memmodel-trace ").append(std::to_string(Trace::kFormatVersion)).push_back('\n');
    if (!trace.metadata.empty()) out.append("= ").append(trace.metadata).push_back('\n');
    for (const std::string& op : trace.operators) out.append("o ").append(op).push_back('\n');
    for (const ModuleInfo& module : trace.modules) {
      out.append("m ").append(module.type.empty() ? "?" : module.type);
      out.append(" ").append(module.path).push_back('\n');
    }
  }
  auto convolution = trace.convolutions.begin();
  auto call = trace.operator_calls.begin();
  for (std::size_t i = 0; i <= trace.events.size(); ++i) {
    for (; full && convolution != trace.convolutions.end() && convolution->position <= i;
         ++convolution) {
      AppendConvolution(*convolution, &out);
    }
    for (; full && call != trace.operator_calls.end() && call->position <= i; ++call) {
      AppendCall(*call, &out);
    }
    if (i < trace.events.size()) AppendEvent(trace, trace.events[i], full, &out);
  }
  return out;
}

Status WriteTrace(const Trace& trace, const std::string& path, TraceDetail detail) {
  return WriteFileAtomically(path, FormatTrace(trace, detail));
}

}  // namespace memmodel
