// The lines that memmodel and memmodel-trace exchange (docs/architecture.md,
// "The child protocol") as plain structs, and their JSON.
#ifndef MEMMODEL_SRC_CHILD_PROTOCOL_H_
#define MEMMODEL_SRC_CHILD_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/job.h"
#include "memmodel/status.h"

namespace memmodel {

// What the child says about the model once it is loaded.
struct LoadedModel {
  std::string kind;  // "torchscript", "exported_program", "state_dict"
  std::string torch_version;
  std::optional<std::int64_t> cudnn_version;
  std::int64_t parameters = 0;  // elements
  Bytes parameter_bytes = 0;
  Bytes buffer_bytes = 0;
  std::vector<InputSpec> inputs;
  std::optional<std::int64_t> batch_fixed;  // the only batch that the file's graph takes
  std::string loss;
  std::vector<std::string> assumptions;  // sentences, for the user
  double load_ms = 0;
};

struct ProbeRequest {
  int id = 0;
  std::int64_t batch = 1;
  int steps = 3;
  Bytes total_bytes = 0;                   // of the virtual card; 0: unlimited
  Bytes context_bytes = 0;                 // the part of them that the context takes
  Bytes allocator_limit_bytes = 0;         // as set_per_process_memory_fraction; 0: none
  bool largest_workspace_fastest = false;  // of plans that cudnn.benchmark times
  std::string trace;                       // path for the trace; "": none is written
  std::optional<double> unknown_count;     // share of the most that an unknown count can be
};

enum class Outcome : std::uint8_t { kOk, kOutOfMemory, kError };

struct UnknownRead {
  std::string op;
  std::string module;
  Bytes bytes = 0;
  std::string where;
};

struct StepPeaks {
  struct PhasePeak {
    Bytes peak_allocated = 0;
    Bytes allocated = 0;  // at the end of the phase
  };
  std::optional<PhasePeak> forward, backward, step;
  std::optional<Bytes> reserved;
};

struct ProbeAnswer {
  int id = 0;
  std::int64_t batch = 0;  // filled in by Child from the request
  Outcome outcome = Outcome::kError;
  std::optional<Bytes> peak_allocated, peak_reserved, peak_active, peak_requested;
  std::optional<Bytes> weights;
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
  std::optional<std::int64_t> segments;
  std::vector<StepPeaks> steps;
  std::vector<UnknownRead> unknown;
  std::vector<UnknownRead> harmless;
  struct Refused {
    std::string function;
    std::int64_t count = 0;
  };
  std::vector<Refused> refused;
  std::vector<Refused> approximate;  // answered, but not exactly
  struct Context {
    std::optional<std::int64_t> modules_loaded, kernels;
    std::optional<Bytes> code_bytes;
    std::optional<std::int64_t> cublas_handles, cublaslt_handles, cudnn_handles;
    std::optional<Bytes> measured;  // on a real GPU: NVML's figure less reserved memory
  } context;
  std::string workspace_basis;  // "calibrated", "deviceless", "mixed"; "" if not said
  struct Error {
    std::string message, op, module;
  } error;
  double elapsed_ms = 0;
};

std::string FormatJob(const Job& job, Bytes memory_limit);
std::string FormatProbe(const ProbeRequest& probe);

// One line from the child: the model, a probe's answer, or the error that ended
// it (as a Status with the code that the child gave). A line that is none of
// these is kUnavailable: the child's standard output is not to be trusted.
using ChildLine = std::variant<LoadedModel, ProbeAnswer>;
Result<ChildLine> ParseChildLine(std::string_view line);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CHILD_PROTOCOL_H_
