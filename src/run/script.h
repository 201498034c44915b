// One run of a training script on the virtual or the real GPU: starts the user's command with
// src/python in front of its PYTHONPATH, waits until enough steps are done, ends
// whatever is left, and gathers what its processes wrote.
#ifndef MEMMODEL_SRC_RUN_SCRIPT_H_
#define MEMMODEL_SRC_RUN_SCRIPT_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/job.h"
#include "memmodel/status.h"
#include "src/run/process_report.h"

namespace memmodel {

// Where memmodel's own files are.
struct ScriptTools {
  std::string inject;                                         // the folder put on PYTHONPATH
  std::vector<std::pair<std::string, std::string>> standins;  // CUDA major -> folder
  std::string cudnn, cublas_lt;  // real libraries, if the interpreter has none; may be ""
  std::string cache;             // folder for cuDNN's answers; "" for none
};
Result<ScriptTools> FindScriptTools();

// What the host gets where it reads a value that only a kernel knows.
enum class Answers { kZero, kOne, kTrue };  // kTrue: one for booleans, zero for numbers

struct ScriptOptions {
  std::vector<std::string> command;  // as typed after --
  DeviceKind device = DeviceKind::kVirtual;
  std::string device_file;
  Bytes total_bytes = 0;  // of each card; 0: without end
  int gpus = 1;
  int steps = 3;       // 0: the script runs to its own end
  bool eager = false;  // torch.compile leaves the script's functions as they are
  Answers answers = Answers::kZero;
  std::optional<double> unknown_count;  // share of the largest count; unset: unknown
  std::optional<Bytes> allocator_limit;
  std::string alloc_conf;
  std::string triton_cache;  // folder of kernels that Triton has compiled
  double timeout_s = 0;      // 0: none
  bool quiet = false;        // the script's own output is dropped
  int interrupt_fd = -1;     // readable when the wait is to end; -1: none
};

struct ScriptRun {
  std::vector<ProcessReport> reports;  // of processes that used CUDA, by rank
  std::optional<Refusal> refusal;      // the first
  int pythons = 0;                     // interpreters that were entered
  int pythons_with_torch = 0;
  int exit_status = 0;       // of the command; 128 + signal if it was killed
  bool ended_by_us = false;  // all steps were done, or it was refused
  bool timed_out = false;
  bool interrupted = false;
  std::string last_error;  // uncaught exception of a process without CUDA
  double elapsed_ms = 0;
};

// `folder`: an empty folder of this run, which must outlive the use of its traces.
// Errors: kInvalidArgument if the command cannot be started; kUnavailable if files
// cannot be written. A script that fails is a ScriptRun.
Result<ScriptRun> RunScript(const ScriptTools& tools, const ScriptOptions& options,
                            const std::string& folder);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_SCRIPT_H_
