// The child's answer to `memmodel calibrate` (src/step/calibrate.h), and the device file
// that comes of it.
#ifndef MEMMODEL_SRC_CALIBRATE_FIGURES_H_
#define MEMMODEL_SRC_CALIBRATE_FIGURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/device.h"
#include "memmodel/job.h"
#include "memmodel/status.h"

namespace memmodel {

struct CalibrationAnswer {
  nlohmann::json figures;  // null if not asked
  std::int64_t cudnn_version = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> plans;  // bytes, engine
  // Of each operator asked: its requests; nothing if it cannot be called.
  std::vector<std::optional<std::vector<Bytes>>> operators;
};

std::string FormatCalibrationRequest(DeviceKind device, bool figures,
                                     const std::vector<std::string>& plans,
                                     const std::vector<std::string>& operators = {});
// `plans`, `operators`: how many were asked.
Result<CalibrationAnswer> ParseCalibrationAnswer(std::string_view line, std::size_t plans,
                                                 std::size_t operators = 0);

// The device file of measured figures. What could not be measured (the context where NVML
// does not list the process, clusters) is taken from `known`, the catalogue's entry of the
// same GPU, with its sources; kUnavailable if there is none. `name` "": `known`'s, else made
// of the GPU's own name.
Result<std::string> DeviceFileText(const nlohmann::json& figures, const Device* known,
                                   const std::string& name);

// The same file with the largest differences between its rule and measured contexts.
Result<std::string> WithContextRange(const std::string& text, Bytes below, Bytes above,
                                     const std::string& source);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CALIBRATE_FIGURES_H_
