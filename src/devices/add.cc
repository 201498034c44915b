#include <algorithm>
#include <filesystem>

#include "memmodel/device.h"
#include "src/core/atomic_file.h"
#include "src/devices/device_file.h"
#include "src/devices/reader.h"

namespace memmodel {
namespace {

// Tables of cuDNN's plans are looked for beside the device file: a device that takes a
// shipped one's place keeps its table.
Status KeepPlans(const std::string& folder, const std::string& name) {
  constexpr std::size_t kLargestTable = std::size_t{256} << 20;
  const std::string own = folder + "/cudnn/" + name + ".plans";
  const Result<std::string> data = DataFolder();
  std::error_code error;
  if (!data.ok() || std::filesystem::exists(own, error)) return {};
  const std::string shipped = *data + "/cudnn/" + name + ".plans";
  if (!std::filesystem::exists(shipped, error)) return {};
  const Result<std::string> table = ReadFile(shipped, kLargestTable);
  if (!table.ok()) return table.status();
  std::filesystem::create_directories(folder + "/cudnn", error);
  return WriteFileAtomically(own, *table);
}

}  // namespace

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
  if (Status s = KeepPlans(folder, name); !s.ok()) return s;
  if (Status s = WriteFileAtomically(device->path, text); !s.ok()) return s;
  return device;
}

}  // namespace memmodel
