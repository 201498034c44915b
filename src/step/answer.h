// What memmodel-trace answers, as plain structs, and their JSON lines
// (docs/architecture.md). No LibTorch here.
#ifndef MEMMODEL_SRC_STEP_ANSWER_H_
#define MEMMODEL_SRC_STEP_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/bytes.h"
#include "src/tracer/unknown_reads.h"

namespace memmodel::step {

struct InputFigure {
  std::string name;
  std::vector<std::int64_t> shape;  // without the batch dimension
  std::string dtype;
  bool assumed = false;  // found by trying
};

struct LoadedAnswer {
  std::string kind;  // torchscript, exported_program
  std::string torch_version;
  std::int64_t cudnn_version = 0;
  std::int64_t parameters = 0;
  Bytes parameter_bytes = 0;
  Bytes buffer_bytes = 0;
  std::vector<InputFigure> inputs;
  std::optional<std::int64_t> batch_fixed;
  std::string loss;
  std::vector<std::string> assumptions;
  double load_ms = 0;
};

// A saved state_dict or pickled module: what is certain about it.
struct PickledTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype;
  Bytes bytes = 0;
};

struct StateDictAnswer {
  std::string what;  // "state_dict", "module": what the pickle seems to be
  std::int64_t parameters = 0;
  Bytes parameter_bytes = 0;
  std::vector<PickledTensor> tensors;  // the largest first, limited
};

struct PhaseFigures {
  Bytes peak_allocated = 0;  // the highest within the phase
  Bytes allocated = 0;       // at its end
};

struct StepFigures {
  PhaseFigures forward;
  PhaseFigures backward;
  PhaseFigures step;
  Bytes reserved = 0;
};

struct ProbeAnswer {
  std::int64_t id = 0;
  std::string outcome = "error";  // ok, oom, error
  Bytes peak_allocated = 0;
  Bytes peak_reserved = 0;
  Bytes peak_active = 0;
  Bytes peak_requested = 0;
  Bytes weights = 0;  // allocated after the model is on the device
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
  std::int64_t segments = 0;  // most at one time
  std::string loss;
  std::vector<StepFigures> steps;
  tracer::UnknownReads unknown;
  std::string vgpu_report;  // DeviceReport()
  std::string error_message;
  std::string error_operator;
  std::string error_module;
  double elapsed_ms = 0;
};

// Each is one line with its newline.
std::string FormatLoaded(const LoadedAnswer& answer);
std::string FormatStateDict(const StateDictAnswer& answer);
std::string FormatProbe(const ProbeAnswer& answer);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_ANSWER_H_
