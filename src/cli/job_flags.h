// The options that say which job on which GPU is meant; every subcommand that
// runs a model takes them.
#ifndef MEMMODEL_SRC_CLI_JOB_FLAGS_H_
#define MEMMODEL_SRC_CLI_JOB_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/predict.h"
#include "memmodel/status.h"

namespace memmodel::cli {

struct JobFlags {
  std::string model, gpu, gpu_mem, optimizer, alloc_conf, checkpoint;
  std::string precision = "fp32", loss = "auto", mode = "train", step_protocol = "loop";
  std::string device = "virtual", allocator_limit, unknown_count;
  std::vector<std::string> inputs;
  int accumulate = 1, steps = 3, jobs = 2;
  double clip_grad_norm = 0, timeout_s = 0;
  bool channels_last = false, cudnn_benchmark = false, ema = false;
};

// `flags` must live as long as `command`.
void AddJobFlags(CLI::App* command, JobFlags* flags);

// What the flags mean, with the assumptions that follow from what is missing.
// InvalidArgument names the flag, what it holds and what it may hold.
Result<PredictOptions> ReadJobFlags(const JobFlags& flags);

// The GPU that --gpu and --gpu-mem mean, into `options`.
Status ReadGpuFlags(const std::string& gpu, const std::string& gpu_mem, PredictOptions* options);

// The share that --unknown-count's text means; "" leaves it unset.
Status ReadUnknownCount(const std::string& text, std::optional<double>* share);

// The folder that keeps cuDNN's answers between runs, made if need be; "" if it
// cannot be.
std::string CacheFolder();

}  // namespace memmodel::cli

#endif  // MEMMODEL_SRC_CLI_JOB_FLAGS_H_
