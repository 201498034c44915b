#include <cstdio>

#include "memmodel/calibrate.h"

namespace memmodel {

std::string FormatCalibration(const Calibration& c) {
  char line[300];
  std::string text = c.device.device_name + ": " + c.device.path + "\n";
  const ContextFigures& context = c.device.context;
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / kMiB; };
  std::snprintf(line, sizeof line,
                "  context %.0f MiB, a cuBLAS handle %.0f MiB, a cuDNN handle %.0f MiB (%.1f s)\n",
                mib(context.base), mib(context.cublas_handle.value_or(0)),
                mib(context.cudnn_handle.value_or(0)), c.figures_s);
  text += line;
  if (!c.plans_path.empty()) {
    std::snprintf(line, sizeof line, ": %zu plans, %zu with those from before (%.1f s + %.1f s)\n",
                  c.plans, c.plans_in_file, c.trace_s, c.plans_s);
    text += c.plans_path + line;
  }
  if (c.without_plan > 0) {
    text += "  cuDNN has no plan for " + std::to_string(c.without_plan) + " convolutions\n";
  }
  for (const std::string& failed : c.failed) text += "  left out: " + failed + "\n";
  if (c.least_above && c.most_above) {
    std::snprintf(line, sizeof line,
                  "Run on the GPU: its context is %+.0f to %+.0f MiB from the rule (%.1f s)\n",
                  mib(*c.least_above), mib(*c.most_above), c.run_s);
    text += line;
  }
  return text + "Predictions with --gpu " + c.device.name + " use them from now on.\n";
}

}  // namespace memmodel
