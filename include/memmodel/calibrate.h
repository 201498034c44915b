// Learns from the machine's GPU what predictions about it need, without training on it:
// its properties, what contexts and handles take, and cuDNN's convolution plans.
#ifndef MEMMODEL_CALIBRATE_H_
#define MEMMODEL_CALIBRATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/child_options.h"
#include "memmodel/device.h"
#include "memmodel/job.h"
#include "memmodel/status.h"

namespace memmodel {

struct CalibrateOptions {
  // Whose convolutions are asked about, found by a virtual run of each at each batch.
  std::vector<Job> jobs;
  std::vector<std::int64_t> batches;
  std::vector<std::string> plans;  // further keys as in docs/cudnn.md: "fwd f32 16 3 ..."
  std::string name;  // of the device file; "": the catalogue's, else made of the GPU's name
  bool run = true;   // run each job once on the GPU to measure its context
  int parallel = 1;  // processes that ask, each with a context of its own
  ChildOptions child;
  std::string cache;  // folder for cuDNN's deviceless answers; "": none
  // kVirtual: asks the virtual GPU that MEMMODEL_VGPU_DEVICE names; for tests.
  DeviceKind device = DeviceKind::kCuda;
  std::function<void(const std::string&)> progress;  // may be empty
};

struct Calibration {
  Device device;           // as written
  std::string plans_path;  // "" if no plan was asked
  std::size_t plans = 0;   // asked and answered
  std::size_t without_plan = 0;
  std::size_t plans_in_file = 0;  // with those that were there before
  std::vector<std::string> failed;  // batches at which a network does not run, and why
  // Of the runs on the GPU: how far NVML's figure was above what handles explain.
  std::optional<Bytes> least_above, most_above;
  double figures_s = 0, trace_s = 0, plans_s = 0, run_s = 0;
};

// Writes devices/NAME.json and cudnn/NAME.plans to UserDataFolder(). Errors: kUnavailable
// without a GPU, torch or a folder; kInvalidArgument for a plan that is none; what a
// prediction of a job would give.
Result<Calibration> Calibrate(const CalibrateOptions& options);

// "1,2,8" and "1-64", also mixed. InvalidArgument for anything else or beyond 65536 batches.
Result<std::vector<std::int64_t>> ParseBatches(std::string_view text);

std::string FormatCalibration(const Calibration& calibration);

}  // namespace memmodel

#endif  // MEMMODEL_CALIBRATE_H_
