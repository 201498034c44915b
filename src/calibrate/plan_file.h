// Calibrated tables of cuDNN's plans as `memmodel calibrate` writes them (docs/cudnn.md).
#ifndef MEMMODEL_SRC_CALIBRATE_PLAN_FILE_H_
#define MEMMODEL_SRC_CALIBRATE_PLAN_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "memmodel/status.h"

namespace memmodel {

struct PlanFile {
  std::int64_t cudnn_version = 0;
  std::string device_name;
  std::string source;  // where the plans come from; one line
  // KEY -> "BYTES ENGINE".
  std::map<std::string, std::string, std::less<>> rows;
};

// Whether `key` is "op type" and 15 numbers in range, as a table's keys are.
bool IsPlanKey(std::string_view key);

Result<PlanFile> ReadPlanFile(const std::string& path);
// The lines in the order of their bytes, as the table's reader needs them.
Status WritePlanFile(const PlanFile& file, const std::string& path);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CALIBRATE_PLAN_FILE_H_
