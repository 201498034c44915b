// MemoryModel: the memory of a training step as a function of the batch.
//
// It is made from traces of the same job at a few batches. The order of the
// requests mostly does not depend on the batch, only their sizes do, and most
// sizes are exact integer polynomials of it; what is not (workspaces that a
// library chose, requests that are made at some batches only) is kept as it was
// seen, and whatever is concluded from it between the traced batches carries an
// interval. A model is a small file (docs/memory_model.md) that answers without
// PyTorch.
//
// Thread safety: const members may be called from any number of threads.
#ifndef MEMMODEL_MEMORY_MODEL_H_
#define MEMMODEL_MEMORY_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"
#include "memmodel/trace.h"

namespace memmodel {

// By key: the bytes of a convolution's workspace (one number, 0 for none), or of each
// request that an operator releases before it ends, in the order in which it makes them.
using WorkspaceAnswers = std::map<std::string, std::vector<Bytes>, std::less<>>;

struct ModelOptions {
  // PYTORCH_CUDA_ALLOC_CONF under which allocated and reserved are simulated.
  std::string alloc_conf;
  // Allocated and reserved are simulated once for batches 1..curve_batches and
  // kept in the model, so that asking for one of them takes no simulation.
  // 256 holds the file of the largest networks well below 1 MB.
  std::int64_t curve_batches = 256;
  // What the process holds on the card beside reserved memory: driver context,
  // code, libraries. Unset: figures that need it are left out.
  std::optional<Bytes> context_bytes;
  // The answers to the keys of MemoryModel::WorkspaceKeys. A workspace is exact from
  // batch 1 as far as its keys are all answered; without answers it is interpolated
  // between the traced batches.
  WorkspaceAnswers workspaces;
};

struct ByteRange {
  Bytes low = 0;
  Bytes high = 0;
};

// Why a figure is what it is.
enum class ModelBasis : std::uint8_t {
  kTraced,        // this batch was traced
  kExact,         // between two traced batches that agree on the requests, all sizes exact
  kInterpolated,  // some size or the presence of a request lies between two traced ones
  kExtrapolated,  // below or above all traced batches
};
std::string_view BasisName(ModelBasis basis);  // "traced", "exact", ...

struct BatchMemory {
  std::int64_t batch = 0;
  Bytes requested_peak = 0;     // peak of the live requests, each rounded up to 512 bytes
  Bytes allocated = 0;          // torch.cuda.max_memory_allocated()
  Bytes reserved = 0;           // torch.cuda.max_memory_reserved()
  std::optional<Bytes> device;  // reserved + context, as nvidia-smi counts; unset without context
  // With both neighbours' requests and the span of fitted sizes, widened by the
  // largest error at traced batches that were left out in turn.
  ByteRange allocated_range;
  ByteRange reserved_range;
  ModelBasis basis = ModelBasis::kExact;
};

// The card as a scheduler knows it.
struct GpuBudget {
  Bytes total_bytes = 0;
  Bytes used_bytes = 0;  // by other processes
  double target = 0.8;   // share of total that all processes together may reach
  // Overrides the model's context; unset in both: reserved alone is compared.
  std::optional<Bytes> context_bytes;
};

struct BatchLimit {
  std::int64_t batch = 0;             // 0: not even one sample fits
  std::optional<BatchMemory> memory;  // at `batch`
  Bytes budget_bytes = 0;             // what reserved (+ context) had to stay within
  bool bounded = true;  // false: still fits at the largest batch the model answers for
};

// alpha + beta * batch, in bytes.
struct AffineBytes {
  Bytes alpha = 0;
  Bytes beta = 0;
};

struct BatchBytes {
  std::int64_t batch = 0;
  Bytes bytes = 0;
};

// A workspace as a function of the batch: max(0, sum of hinges), fitted to what
// was traced and judged on batches left out of the fit.
struct WorkspaceModel {
  std::vector<BatchBytes> traced;  // largest workspace alive in the layer, per traced batch
  std::string rule;                // "none", "constant", "affine", "hinges"
  double constant = 0;             // bytes
  double slope = 0;                // bytes a sample
  struct Hinge {
    std::int64_t batch = 0;
    double slope = 0;    // bytes a sample
    bool below = false;  // slope * max(0, batch - b); else slope * max(0, b - batch)
  };
  std::vector<Hinge> hinges;
  double held_out_error = 0;  // bytes, root mean square over held-out batches; 0 for exact rules
  [[nodiscard]] Bytes At(std::int64_t batch) const;
};

struct LayerModel {
  std::string path;  // "layer1.0.conv1"; "" is the root or no module
  std::string type;
  Bytes weights = 0;  // parameters and buffers
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  AffineBytes activations;        // requested by this layer's forward and kept for backward
  bool activations_exact = true;  // false: alpha and beta are a least-squares line
  WorkspaceModel workspace;
};

// A request, or a run of requests, that is made at some traced batches only.
struct OrderChange {
  std::string operator_name;
  std::string module_path;
  Phase phase = Phase::kNone;
  std::vector<std::int64_t> present;  // traced batches that have it
  std::vector<std::int64_t> absent;
  Bytes largest_bytes = 0;
  std::int64_t requests = 0;
};

// Requests whose size follows no exact rule: between traced batches a guess.
struct FittedSizes {
  std::string operator_name;
  std::string module_path;
  Phase phase = Phase::kNone;
  std::int64_t requests = 0;
  Bytes largest_bytes = 0;  // at a traced batch
};

// Where the peak of the live requests stands.
struct PeakMoment {
  int step = -1;  // 0: the first; -1: while loading
  Phase phase = Phase::kNone;
  std::string operator_name;
  std::string module_path;
};

class MemoryModel {
 public:
  static constexpr int kFormatVersion = 2;
  static constexpr std::int64_t kLargestBatch = std::int64_t{1} << 24;

  // Fits a model to traces of one job, each at one batch (its "step b=N"
  // markers), at least two different batches; at least three for rules to be
  // checked rather than assumed. Fails on traces that hold an out-of-memory
  // event, have no step, or are of different jobs.
  static Result<MemoryModel> Fit(std::span<const Trace> traces, const ModelOptions& options = {});

  // What to ask, so that Fit knows the workspaces of convolutions and operators at
  // batches 1..last: keys of docs/cudnn.md and docs/trace_format.md, each once. None if
  // the traces have none. Errors as of Fit.
  static Result<std::vector<std::string>> WorkspaceKeys(std::span<const Trace> traces,
                                                        std::int64_t last);

  // Reading refuses a newer format with both numbers, and whatever is damaged.
  static Result<MemoryModel> Read(const std::string& path);
  static Result<MemoryModel> Parse(std::string_view text, const std::string& name);
  [[nodiscard]] std::string Format() const;  // gzip-compressed
  [[nodiscard]] Status Write(const std::string& path) const;

  MemoryModel(MemoryModel&&) noexcept;
  MemoryModel& operator=(MemoryModel&&) noexcept;
  ~MemoryModel();

  // The peak of the live requests (each rounded up to 512 bytes): a lower bound
  // of allocated that grows with the batch; closed form, below a microsecond.
  [[nodiscard]] Bytes RequestedPeak(std::int64_t batch) const;

  // The request that reaches that peak, the first if several do.
  [[nodiscard]] PeakMoment PeakAt(std::int64_t batch) const;

  // All figures at a batch in 1..kLargestBatch. A look-up up to curve_batches,
  // a simulation (milliseconds) above.
  [[nodiscard]] Result<BatchMemory> At(std::int64_t batch) const;

  // The largest batch whose reserved memory plus context stays within
  // target * total - used, without a retry.
  [[nodiscard]] Result<BatchLimit> Solve(const GpuBudget& budget) const;

  // The requests at a batch: addresses are the allocations' numbers, no segments.
  [[nodiscard]] Trace Synthesise(std::int64_t batch) const;

  [[nodiscard]] const std::string& metadata() const;  // of the first trace, one JSON object
  [[nodiscard]] const std::vector<std::int64_t>& traced_batches() const;
  [[nodiscard]] const std::vector<LayerModel>& layers() const;
  // What keeps the model from being exact; both empty: it is, at every batch
  // between traced ones.
  [[nodiscard]] const std::vector<OrderChange>& order_changes() const;
  [[nodiscard]] const std::vector<FittedSizes>& fitted_sizes() const;
  [[nodiscard]] std::optional<Bytes> context_bytes() const;
  [[nodiscard]] const std::string& alloc_conf() const;

  struct Statistics {
    std::int64_t requests = 0;  // allocations over all steps
    std::int64_t constant = 0, affine = 0, quadratic = 0, fitted = 0;
    std::int64_t planned = 0;    // workspaces that cuDNN was asked for
    std::int64_t sometimes = 0;  // made at some traced batches only
    std::int64_t peak_candidates = 0;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  struct Impl;
  explicit MemoryModel(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace memmodel

#endif  // MEMMODEL_MEMORY_MODEL_H_
