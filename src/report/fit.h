// What `memmodel fit` answers, as a person reads it and as a program does.
#ifndef MEMMODEL_SRC_REPORT_FIT_H_
#define MEMMODEL_SRC_REPORT_FIT_H_

#include <optional>
#include <string>

#include "memmodel/fit.h"
#include "memmodel/memory_model.h"

namespace memmodel {

// Plain text of at most 80 columns, ending in a newline. Without a budget no
// largest batch is given.
std::string FormatPointsFit(const PointsFit& fit, const std::optional<GpuBudget>& budget);
std::string PointsFitToJson(const PointsFit& fit, const std::optional<GpuBudget>& budget);

Result<std::string> FormatModelFit(const MemoryModel& model,
                                   const std::optional<GpuBudget>& budget);
Result<std::string> ModelFitToJson(const MemoryModel& model,
                                   const std::optional<GpuBudget>& budget);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_FIT_H_
