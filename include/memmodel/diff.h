// Two traces aligned request by request: where a predicted step first differs
// from a measured one, and in which operators.
#ifndef MEMMODEL_DIFF_H_
#define MEMMODEL_DIFF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"
#include "memmodel/trace.h"

namespace memmodel {

struct DiffOptions {
  // Sizes are compared as the allocator rounds them: up to a multiple of this.
  Bytes rounding = 512;
  // Skip the part before the first step: parameters moved to the device.
  bool skip_load = false;
};

enum class DifferenceKind : std::uint8_t {
  kSize,   // both ask here, for different sizes
  kOnlyA,  // a request that A alone makes
  kOnlyB,
  kOrder,   // a block that both have is released at different points
  kMarker,  // a marker ("forward done") that one of them lacks
};
std::string_view DifferenceKindName(DifferenceKind kind);

// Who asked, on one side. A bare request stream has no operators: then both are
// those of the nearest request before it that is aligned with one of the other
// trace, and `inferred` is set.
struct DiffContext {
  std::string operator_name;
  std::string module_path;
  bool inferred = false;
};

struct Difference {
  DifferenceKind kind = DifferenceKind::kSize;
  std::int32_t part = 0;  // index into TraceDiff::parts
  Phase phase = Phase::kNone;
  std::int64_t event_a = -1;  // index into the trace's events; -1: no such event
  std::int64_t event_b = -1;
  Bytes bytes_a = 0;  // as requested
  Bytes bytes_b = 0;
  std::string marker;  // kMarker
  DiffContext context;
};

// One part of the traces: "load", "step 1 (b=16)", ...
struct DiffPart {
  std::string name;
  std::int64_t requests_a = 0, requests_b = 0;  // allocations
  std::int64_t matched = 0;                     // allocations aligned with equal size
  std::int64_t differences = 0;
  // Peak of the live requests, each rounded up.
  Bytes peak_a = 0, peak_b = 0;
};

// Differences of one operator family in one library, over all parts.
struct DiffGroup {
  std::string family;   // "convolution", "matmul", "attention", "optimizer", ...
  std::string library;  // "cuDNN", "cuBLAS", "CUB", "PyTorch", "unknown"
  std::int64_t size = 0, only_a = 0, only_b = 0, order = 0;
  Bytes bytes_a = 0, bytes_b = 0;  // requested by the differing requests
};

struct TraceDiff {
  bool identical = true;
  std::vector<DiffPart> parts;
  std::vector<Difference> differences;  // in order
  std::vector<DiffGroup> groups;        // most differences first
};

// Aligns the allocations and releases of `a` and `b`, step by step. Segments are
// not compared: they follow from the requests. Fails if one trace has no
// requests at all.
Result<TraceDiff> DiffTraces(const Trace& a, const Trace& b, const DiffOptions& options = {});

// What a person reads: the table of parts, the first `shown` differences, the
// groups. `name_a` and `name_b` are what to call the traces.
std::string FormatDiff(const TraceDiff& diff, std::string_view name_a, std::string_view name_b,
                       std::size_t shown);
// One JSON object, schema_version 1.
std::string DiffToJson(const TraceDiff& diff, std::string_view name_a, std::string_view name_b,
                       std::size_t shown);

// The family and library of an operator such as "aten::cudnn_convolution",
// "ConvolutionBackward0" or "aten::_foreach_addcdiv_"; by its name alone.
struct OperatorGroup {
  std::string_view family;
  std::string_view library;
};
OperatorGroup GroupOfOperator(std::string_view name);

}  // namespace memmodel

#endif  // MEMMODEL_DIFF_H_
