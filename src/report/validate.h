// What `memmodel validate` answers.
#ifndef MEMMODEL_SRC_REPORT_VALIDATE_H_
#define MEMMODEL_SRC_REPORT_VALIDATE_H_

#include <string>
#include <vector>

#include "memmodel/validate.h"

namespace memmodel {

std::string FormatValidation(const std::vector<MeasuredRun>& runs, const Validation& validation,
                             std::size_t worst);
std::string ValidationToJson(const std::vector<MeasuredRun>& runs, const Validation& validation);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_VALIDATE_H_
