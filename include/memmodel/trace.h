// A Trace: everything the caching allocator was asked during some training
// steps, in order, with the operator and module that asked.
//
// The file format is described line by line in docs/trace_format.md. A bare
// request stream (allocator events and markers only) is a Trace too.
#ifndef MEMMODEL_TRACE_H_
#define MEMMODEL_TRACE_H_

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"

namespace memmodel {

enum class OperatorId : std::int32_t { kNone = -1 };  // index into Trace::operators
enum class ModuleId : std::int32_t { kNone = -1 };    // index into Trace::modules
enum class TextId : std::int32_t { kNone = -1 };      // index into Trace::texts

enum class EventKind : char {
  kAlloc = 'a',          // request of `size` bytes answered at `address`
  kFree = 'f',           // release asked; `size` is the size that was requested
  kFreeCompleted = 'c',  // release done (differs from kFree with several streams)
  kSegmentAlloc = 'S',   // cudaMalloc of `size` bytes
  kSegmentFree = 'X',    // cudaFree
  kSegmentMap = 'M',     // pages mapped into an expandable segment
  kSegmentUnmap = 'U',
  kOutOfMemory = 'O',  // a request of `size` bytes failed; `address` = bytes free on the device
  kMarker = '#',       // `text` says what starts or ended here
  kTag = 't',          // the block at `address` holds a tensor of `role`, named `text`
  kContext = 'd',      // the driver took memory for itself on `occasion`
};

// What a live block is known to hold, told by the tracer (kTag events).
enum class TensorRole : std::uint8_t {
  kNone,
  kWeight,
  kBuffer,
  kGradient,
  kOptimizerState,
  kInput,  // the batch and its target
  kOutput,
  kLoss,
  kLibraryWorkspace,  // kept for cuBLAS, cuBLASLt
};

// "weight", "buffer", "gradient", "optimizer_state", "input", "output", "loss",
// "library_workspace"; "none".
std::string_view RoleName(TensorRole role);

// When a CUDA context grows. It moves the addresses of later segments.
enum class ContextOccasion : std::uint8_t {
  kFirstKernel,   // the first kernel is launched
  kCublasHandle,  // a handle of cuBLAS is made
  kCudnnHandle,
};

// "first_kernel", "cublas_handle", "cudnn_handle".
std::string_view OccasionName(ContextOccasion occasion);
std::optional<ContextOccasion> ParseOccasion(std::string_view name);

struct Event {
  EventKind kind = EventKind::kMarker;
  TensorRole role = TensorRole::kNone;                       // kTag only
  ContextOccasion occasion = ContextOccasion::kFirstKernel;  // kContext only
  std::int32_t stream = 0;                                   // 0, 1, ...: in order of first use
  std::uint64_t address = 0;
  Bytes size = 0;
  OperatorId op = OperatorId::kNone;  // innermost operator running, if known
  ModuleId module = ModuleId::kNone;  // innermost module, if known
  TextId text = TextId::kNone;        // kMarker, kTag only
};

// A convolution that cuDNN executed. It is no event of the allocator, and stands
// beside the events.
struct ConvolutionCall {
  std::size_t position = 0;     // how many events came before
  std::uint64_t workspace = 0;  // address of the block that is its workspace; 0: it has none
  OperatorId op = OperatorId::kNone;
  ModuleId module = ModuleId::kNone;
  std::string key;  // what is convolved, as docs/cudnn.md says
};

// A call of an operator that asks for memory of its own by more than its sizes.
struct OperatorCall {
  std::size_t position = 0;  // how many events came before its end
  std::size_t events = 0;    // how many of these are its own, the last before `position`
  OperatorId op = OperatorId::kNone;
  ModuleId module = ModuleId::kNone;
  std::string key;  // operator and arguments, as docs/trace_format.md says
};

struct ModuleInfo {
  std::string path;  // "layer1.0.conv1"; "" is the root
  std::string type;  // "Conv2d"
};

// The markers that the step writes. Phases follow from them: after kLoad, the
// load phase; after "step b=N" or kMicroBatch, forward; after kForwardDone,
// backward; after kBackwardDone, the optimizer; after kStepDone, none.
namespace marker {
inline constexpr std::string_view kLoad = "load";
inline constexpr std::string_view kStepPrefix = "step b=";  // "step b=16"
inline constexpr std::string_view kMicroBatch = "micro-batch";
inline constexpr std::string_view kForwardDone = "forward done";
inline constexpr std::string_view kBackwardDone = "backward done";
inline constexpr std::string_view kStepDone = "step done";
inline constexpr std::string_view kEmptyCache = "empty_cache";
inline constexpr std::string_view kEnd = "end";
}  // namespace marker

enum class Phase : std::uint8_t { kNone, kLoad, kForward, kBackward, kOptimizer };
std::string_view PhaseName(Phase phase);  // "none", "load", "forward", ...

// The phase that starts with this marker text; `current` if it starts none.
Phase PhaseAfter(std::string_view marker_text, Phase current);

struct Trace {
  static constexpr int kFormatVersion = 2;

  // One JSON object, as the tracer wrote it: torch_version, device, batch, steps,
  // what was run and how. "" for a bare request stream.
  std::string metadata;
  std::vector<std::string> operators;
  std::vector<ModuleInfo> modules;
  std::vector<std::string> texts;
  std::vector<Event> events;
  // In the order of their positions; empty where they were not watched.
  std::vector<ConvolutionCall> convolutions;
  std::vector<OperatorCall> operator_calls;

  [[nodiscard]] std::string_view OperatorName(OperatorId id) const;  // "" for kNone
  [[nodiscard]] std::string_view ModulePath(ModuleId id) const;      // "" for kNone
  [[nodiscard]] std::string_view Text(TextId id) const;              // "" for kNone

  TextId AddText(std::string_view text);  // appends; no look-up
};

// Reads a trace or a bare request stream, gzip-compressed or plain. Errors name
// the file, the line and what was expected; a newer format version is refused
// with both numbers.
Result<Trace> ReadTrace(const std::string& path);
Result<Trace> ParseTrace(std::string_view text, const std::string& name);

enum class TraceDetail { kFull, kRequestsOnly };

// Writes `trace` to `path`, to a temporary file that is then renamed into place.
Status WriteTrace(const Trace& trace, const std::string& path,
                  TraceDetail detail = TraceDetail::kFull);
std::string FormatTrace(const Trace& trace, TraceDetail detail = TraceDetail::kFull);

}  // namespace memmodel

#endif  // MEMMODEL_TRACE_H_
