// What one process of a script wrote down (src/python, docs/run.md) as plain structs.
#ifndef MEMMODEL_SRC_RUN_PROCESS_REPORT_H_
#define MEMMODEL_SRC_RUN_PROCESS_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"
#include "src/child/protocol.h"

namespace memmodel {

struct DeviceTrace {
  int device = 0;
  std::string path;
  bool complete = false;  // every request is in it
  Bytes peak_allocated = 0, peak_reserved = 0;
};

// A read of unknown bytes, with its place in the stream of requests of each device.
struct ScriptRead {
  std::string op, module, where, reason, phase;
  std::int64_t step = 0, count = 0;
  bool boolean = false;
  bool is_count = false;  // how many elements an operator found, at most those of its input
  std::map<int, std::int64_t> position;
};

struct ProcessReport {
  ProbeAnswer answer;  // of the device with the highest peak
  bool cuda_used = false;
  int pid = 0, rank = 0, world_size = 1;
  std::int64_t steps_done = 0;
  std::optional<std::int64_t> batch;  // first dimension of the model's first argument
  Bytes bucket_bytes = 0;             // of DistributedDataParallel's gradient buckets
  std::string ended;                  // "steps", "exit"
  std::string torch_version, python;
  std::string alloc_conf;  // as torch had it at the end
  std::optional<std::int64_t> cudnn_version;
  std::vector<DeviceTrace> devices;
  std::vector<ScriptRead> unknown, harmless;
  std::vector<ScriptRead> counts;       // answered with a share of the largest, which `reason` says
  std::int64_t compiled_functions = 0;  // by torch.compile
  std::int64_t kernel_trials = 0;       // times that configurations of a Triton kernel were timed
  std::string stale_bytes;              // why reused memory may count as known; "" if it does not

  [[nodiscard]] const DeviceTrace* device() const;  // the one with the highest peak
};

struct Refusal {
  std::string code;  // "cpu_only_torch", "static_extension", ...
  std::string message;
};

Result<ProcessReport> ParseProcessReport(std::string_view text);
Result<Refusal> ParseRefusal(std::string_view text);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_PROCESS_REPORT_H_
