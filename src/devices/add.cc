#include <algorithm>
#include <filesystem>

#include "memmodel/device.h"
#include "src/core/atomic_file.h"
#include "src/devices/device_file.h"
#include "src/devices/reader.h"

namespace memmodel {

Result<Device> AddDevice(std::string_view text, const std::string& origin) {
  // Both readers: the catalogue's, and the stricter one of the virtual GPU.
  Result<Device> device = ParseDevice(text, origin);
  if (!device.ok()) return device.status();
  if (Result<DeviceSpec> spec = ParseDeviceFile(text, origin); !spec.ok()) return spec.status();
  const std::string& name = device->name;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!std::all_of(name.begin(), name.end(), allowed)) {
    return Status::BadInput(origin + ": the name '" + name +
                            "' may hold lower-case letters, digits, - and _ alone");
  }
  const std::string folder = UserDataFolder();
  if (folder.empty()) {
    return Status::Unavailable("no folder for the user's devices: set HOME or MEMMODEL_USER_DATA");
  }
  std::error_code error;
  std::filesystem::create_directories(folder + "/devices", error);
  if (error) {
    return Status::Unavailable("cannot make " + folder + "/devices: " + error.message());
  }
  device->path = folder + "/devices/" + name + ".json";
  if (Status s = WriteFileAtomically(device->path, text); !s.ok()) return s;
  return device;
}

}  // namespace memmodel
