// A Prediction as a person reads it, and as a program does.
#ifndef MEMMODEL_REPORT_H_
#define MEMMODEL_REPORT_H_

#include <string>

#include "memmodel/device.h"
#include "memmodel/predict.h"

namespace memmodel {

// At most 80 columns, plain text: the verdict first, then why. Ends in a newline.
std::string FormatTable(const PredictOptions& options, const Prediction& prediction);

// One JSON object with the fields of docs/json.md (schema_version 1); a figure
// that is not known is left out. Ends in a newline.
std::string FormatJson(const PredictOptions& options, const Prediction& prediction);

// The GPU catalogue as a table and as JSON; one GPU with the source of each figure.
std::string FormatDevices(const DeviceCatalogue& catalogue);
std::string FormatDevice(const Device& device);
std::string FormatDevicesJson(const std::vector<Device>& devices);

// "memmodel 0.1.0"'s second word.
std::string_view Version();

}  // namespace memmodel

#endif  // MEMMODEL_REPORT_H_
