// Predictions against measured runs.
#ifndef MEMMODEL_VALIDATE_H_
#define MEMMODEL_VALIDATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/predict.h"

namespace memmodel {

// One measured run: a line of the file (docs/validation.md).
struct MeasuredRun {
  int line = 0;
  std::string model;  // "resnet50": a file of the models' folder without its extension
  Job job;            // all but the path of the model
  std::int64_t batch = 0;
  int steps = 3;
  std::optional<Bytes> allocated;  // torch.cuda.max_memory_allocated()
  std::optional<Bytes> reserved;   // torch.cuda.max_memory_reserved()
  std::optional<Bytes> device;     // NVML's figure for the process
  // A largest batch found by trial under a cap on reserved memory: `batch` ran,
  // `smallest_oom` did not.
  std::optional<Bytes> cap;
  std::optional<std::int64_t> smallest_oom;
  std::string skipped;  // why it cannot be compared; "" if it can
};

// Reads JSONL (one object a line) or CSV (a header with the same names). Unknown
// fields are ignored; a line without model or batch is an error that names it.
Result<std::vector<MeasuredRun>> ReadRuns(const std::string& path);
Result<std::vector<MeasuredRun>> ParseRuns(std::string_view text, const std::string& name);

struct ValidateOptions {
  std::string models;  // folder with MODEL.pt2 or MODEL.pt; the first is preferred
  Device device;
  Bytes total_bytes = 0;         // 0: the device's
  bool largest_batches = false;  // also search largest batches; seconds each
  ChildOptions child;
  std::function<void(const std::string&)> progress;  // may be empty
};

enum class Quantity : std::uint8_t { kAllocated, kReserved, kDevice, kLargestBatch };
std::string_view Name(Quantity quantity);  // "allocated", "reserved", "device", "largest_batch"

// One figure of one run.
struct Comparison {
  std::size_t run = 0;  // index into the runs
  Quantity quantity = Quantity::kAllocated;
  std::int64_t measured = 0;
  std::int64_t predicted = 0;
  [[nodiscard]] double Error() const;  // predicted / measured - 1
};

// Errors are absolute values of Comparison::Error().
struct ErrorRow {
  Quantity quantity = Quantity::kAllocated;
  std::string group;  // "all", "sgd fp32", ...
  std::size_t runs = 0;
  std::size_t equal = 0;
  double median = 0, p95 = 0, largest = 0;
};

struct Validation {
  std::vector<Comparison> comparisons;
  std::vector<ErrorRow> table;
  std::vector<std::pair<std::size_t, std::string>> failed;  // run, why no prediction
  std::size_t skipped = 0;
};

// Runs every job on the virtual GPU. A run that cannot be predicted is listed
// under `failed`; only what concerns all runs is an error.
Result<Validation> Validate(const std::vector<MeasuredRun>& runs, const ValidateOptions& options);

// The table of `comparisons`, by quantity: all, then each optimizer and precision; for the
// device also the runs whose reserved figure is equal, which shows the context's error alone.
std::vector<ErrorRow> MakeErrorTable(const std::vector<MeasuredRun>& runs,
                                     const std::vector<Comparison>& comparisons);

}  // namespace memmodel

#endif  // MEMMODEL_VALIDATE_H_
