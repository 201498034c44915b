// Reads the files of data/devices (docs/devices.md).
#ifndef MEMMODEL_SRC_DEVICES_READER_H_
#define MEMMODEL_SRC_DEVICES_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "memmodel/device.h"
#include "memmodel/status.h"

namespace memmodel {

Result<Device> ReadDevice(const std::string& path);
Result<Device> ParseDevice(std::string_view text, const std::string& path);

// memory_classes.json: the names that stand for their memory size, most common first.
Result<std::vector<std::string>> ReadPreferredDevices(const std::string& path);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_DEVICES_READER_H_
