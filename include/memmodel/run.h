// From a training script and a GPU to a verdict: the user's own command is run on
// the virtual GPU, as it is, for some optimizer steps.
#ifndef MEMMODEL_RUN_H_
#define MEMMODEL_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/device.h"
#include "memmodel/predict.h"
#include "memmodel/status.h"

namespace memmodel {

struct RunOptions {
  // As typed after "--": the interpreter or a launcher (torchrun), then its arguments.
  // "{batch}" in them stands for the batch size, with find_batch.
  std::vector<std::string> command;
  DeviceKind device_kind = DeviceKind::kVirtual;  // kCuda: the real GPU, without the stand-ins
  Device device;
  Bytes total_bytes = 0;  // of each card
  double target = 0.8;    // share of the card, as nvidia-smi counts, that the process may use
  std::optional<Bytes> allocator_limit;  // of each process, as set_per_process_memory_fraction
  std::string alloc_conf;                // as PYTORCH_ALLOC_CONF
  int steps = 3;                         // optimizer steps; 0: to the script's own end
  int gpus = 1;
  bool find_batch = false;
  std::int64_t largest_batch = std::int64_t{1} << 16;  // not looked beyond
  // Counts that only a kernel knows (nonzero, boolean masks, unique) are answered with this
  // share of the largest possible; 1 is an upper bound. Unset: they are unknown.
  std::optional<double> unknown_count;
  bool eager = false;        // TORCHDYNAMO_DISABLE=1: torch.compile leaves functions as they are
  std::string trace_output;  // file for the trace of the run that is described; "": none
  double timeout_s = 0;      // of one run of the script; 0: none
  std::string cache;         // folder for cuDNN's answers; "": none
  int interrupt_fd = -1;     // readable when the wait is to end (signalfd); -1: none
  std::vector<std::string> assumptions;  // what was not given; one sentence each
  std::function<void(const std::string&)> progress;
};

// One process that used a GPU.
struct RankMemory {
  int rank = 0;
  int device = 0;
  std::int64_t steps_done = 0;
  std::optional<std::int64_t> batch;  // first dimension of the model's first argument
  Peak peak;
  std::int64_t retries = 0, ooms = 0;
};

struct BatchProbe {
  std::int64_t batch = 0;
  std::string outcome;  // "fits", "above target", "retries", "out of memory", "measured"
  std::optional<Peak> peak;
  std::int64_t steps_done = 0;
  double seconds = 0;
};

// Bytes that the host read and no kernel wrote, and why they do not matter.
struct HarmlessRead {
  std::string where;  // "train.py:42: loss.item()"
  std::string reason;
  std::int64_t count = 0;
};

struct RunAnswer {
  // The rank that needs most; its `unknown` names lines of the script.
  Prediction prediction;
  std::vector<RankMemory> ranks;
  std::vector<BatchProbe> probes;  // with find_batch, in the order they were run
  std::vector<HarmlessRead> harmless;
  std::vector<std::string> notes;  // one sentence each
  std::int64_t steps_done = 0;
};

// False, with a reason that names option, value and rule, if it cannot be asked.
[[nodiscard]] bool IsValid(const RunOptions& options, std::string* reason);

// Errors: kInvalidArgument and kBadInput for the user's mistakes (a command that
// cannot be started, a script that fails on its own, a CPU-only torch); kUnknown for
// what the virtual GPU cannot answer for (torch.compile, several machines);
// kUnavailable if memmodel's own files are missing.
Result<RunAnswer> Run(const RunOptions& options);

// At most 80 columns, plain text; and one JSON object (docs/run.md).
std::string FormatRunTable(const RunOptions& options, const RunAnswer& answer);
std::string FormatRunJson(const RunOptions& options, const RunAnswer& answer);

}  // namespace memmodel

#endif  // MEMMODEL_RUN_H_
