// What the memory of a traced training step holds: by kind, by layer, by phase.
//
// All figures count blocks as the caching allocator does: a request's block, that
// is its size rounded up to 512 bytes (or as roundup_power2_divisions says) and
// with the rest that was too small to split off. So they sum to what
// torch.cuda.memory_allocated() shows, exactly.
#ifndef MEMMODEL_BREAKDOWN_H_
#define MEMMODEL_BREAKDOWN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"
#include "memmodel/trace.h"

namespace memmodel {

enum class MemoryKind : std::uint8_t {
  kWeights,           // parameters and buffers
  kGradients,         // of the parameters
  kOptimizerState,    // kept from step to step
  kActivations,       // made in forward and alive after it: saved for backward, outputs
  kWorkspace,         // made and freed inside one operator: cuDNN's workspaces, sort buffers
  kTemporaries,       // everything else that is freed within the step
  kInputs,            // the batch and its target
  kLibraryWorkspace,  // kept by PyTorch for cuBLAS and cuBLASLt
};
inline constexpr int kMemoryKinds = 8;
std::string_view Name(MemoryKind kind);  // "weights", ..., "library_workspace"

// The live blocks at the first moment of the highest allocated memory.
struct Breakdown {
  Bytes bytes[kMemoryKinds] = {};
  Bytes allocated_peak = 0;  // their sum
  Bytes reserved_peak = 0;   // the highest reserved memory of the trace
  // Where the peak stands.
  int step = -1;  // 0: the first; -1: no step was traced
  Phase phase = Phase::kNone;
  std::string op;      // innermost operator, "" if none
  std::string module;  // path, "" if none

  [[nodiscard]] Bytes of(MemoryKind kind) const { return bytes[static_cast<int>(kind)]; }
  // Reserved memory that held no block at that moment, and what the allocator
  // reserved after it: reserved_peak - allocated_peak.
  [[nodiscard]] Bytes fragmentation() const { return reserved_peak - allocated_peak; }
};

struct LayerMemory {
  std::string path;  // "" for what no module asked for
  std::string type;
  Bytes weight_bytes = 0;      // parameters and buffers of the module itself
  Bytes activation_bytes = 0;  // kept from its forward in the step of the peak
  Bytes workspace_bytes = 0;   // the most that workspaces inside it took at once
  // From traces at two batches; unset with one.
  std::optional<double> activation_bytes_per_sample;
};

struct PhaseMemory {
  int step = 0;  // 0: the first
  Phase phase = Phase::kNone;
  Bytes allocated_peak = 0;
  Bytes reserved = 0;  // at the end of the phase
};

struct MemoryUse {
  Breakdown breakdown;
  std::vector<LayerMemory> layers;  // in the order of the module list; layers without memory left out
  std::vector<PhaseMemory> phases;  // load first (step -1), then every step's
};

struct ClassifyOptions {
  // PYTORCH_CUDA_ALLOC_CONF of the traced process: it decides the block sizes.
  std::string alloc_conf;
};

// Errors: kBadInput for a trace whose events contradict each other (a block freed
// twice, a request outside every segment) and for a bare request stream without
// segments.
Result<MemoryUse> Classify(const Trace& trace, const ClassifyOptions& options = {});

// Fills in activation_bytes_per_sample of `layers` (traced at `batch`) from
// those of another batch of the same job, matched by path.
void AddPerSample(std::vector<LayerMemory>* layers, std::int64_t batch,
                  const std::vector<LayerMemory>& other, std::int64_t other_batch);

}  // namespace memmodel

#endif  // MEMMODEL_BREAKDOWN_H_
