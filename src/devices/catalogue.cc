#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "memmodel/device.h"
#include "src/core/nearest.h"
#include "src/devices/reader.h"

namespace memmodel {
namespace {

// Names are compared by their letters and digits: "RTX 4090" is "rtx4090".
std::string Key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0) key += static_cast<char>(std::tolower(u));
  }
  return key;
}

bool Fits(const std::string& pattern, std::string_view field) {
  return pattern.ends_with('*') ? field.starts_with(pattern.substr(0, pattern.size() - 1))
                                : field == pattern;
}

}  // namespace

std::string_view Device::SourceKind(std::string_view field) const {
  for (const FigureSource& source : sources) {
    for (const std::string& pattern : source.fields) {
      if (Fits(pattern, field)) return source.kind;
    }
  }
  return provenance;
}

Result<DeviceCatalogue> DeviceCatalogue::Read(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error) {
    return Status::Unavailable("the GPU catalogue " + folder + " cannot be read: " +
                               error.message() + "; set MEMMODEL_DATA to memmodel's data folder");
  }
  DeviceCatalogue catalogue;
  for (const auto& file : files) {
    if (file.path().extension() != ".json") continue;
    if (file.path().filename() == "memory_classes.json") {
      Result<std::vector<std::string>> preferred = ReadPreferredDevices(file.path().string());
      if (!preferred.ok()) return preferred.status();
      catalogue.preferred_ = *std::move(preferred);
      continue;
    }
    Result<Device> device = ReadDevice(file.path().string());
    if (!device.ok()) return device.status();
    catalogue.devices_.push_back(*std::move(device));
  }
  if (catalogue.devices_.empty()) {
    return Status::Unavailable("the GPU catalogue " + folder + " holds no device file");
  }
  catalogue.Sort();
  return catalogue;
}

Result<DeviceCatalogue> DeviceCatalogue::ReadAll() {
  Result<std::string> data = DataFolder();
  if (!data.ok()) return data.status();
  Result<DeviceCatalogue> all = Read(*data + "/devices");
  if (!all.ok()) return all.status();
  const std::string own = UserDataFolder() + "/devices";
  std::error_code error;
  if (own == "/devices" || !std::filesystem::is_directory(own, error)) return all;
  for (const auto& file : std::filesystem::directory_iterator(own, error)) {
    if (file.path().extension() != ".json") continue;
    Result<Device> device = ReadDevice(file.path().string());
    if (!device.ok()) return device.status();
    std::erase_if(all->devices_, [&](const Device& d) { return d.name == device->name; });
    all->devices_.push_back(*std::move(device));
  }
  if (error) {
    return Status::Unavailable("cannot read " + own + ": " + error.message());
  }
  all->Sort();
  return all;
}

const Device* DeviceCatalogue::FindDeviceName(std::string_view device_name) const {
  for (const Device& device : devices_) {
    if (device.device_name == device_name) return &device;
  }
  return nullptr;
}

void DeviceCatalogue::Sort() {
  std::sort(devices_.begin(), devices_.end(), [](const Device& a, const Device& b) {
    return a.memory_gb != b.memory_gb ? a.memory_gb < b.memory_gb : a.name < b.name;
  });
}

Result<Device> DeviceCatalogue::Find(std::string_view name) const {
  const std::string wanted = Key(name);
  std::vector<std::string> names;
  for (const Device& device : devices_) {
    if (Key(device.name) == wanted || Key(device.device_name) == wanted) return device;
    names.push_back(device.name);
    for (const std::string& alias : device.aliases) {
      if (Key(alias) == wanted) return device;
    }
  }
  const std::string near = DidYouMean(name, names);
  return Status::InvalidArgument("no GPU '" + std::string(name) + "' in the catalogue" +
                                 (near.empty() ? "; 'memmodel devices' lists them, and "
                                                 "--gpu-mem SIZE takes any card"
                                               : near));
}

Result<Device> DeviceCatalogue::OfMemory(Bytes total) const {
  const Device* best = nullptr;
  const auto distance = [total](const Device& device) {
    return std::abs(device.memory_gb * kGiB - total);
  };
  const auto rank = [this](const Device& device) {
    return std::find(preferred_.begin(), preferred_.end(), device.name) - preferred_.begin();
  };
  for (const Device& device : devices_) {
    if (!device.unsupported.empty()) continue;
    if (best == nullptr || distance(device) < distance(*best) ||
        (distance(device) == distance(*best) && rank(device) < rank(*best))) {
      best = &device;
    }
  }
  if (best == nullptr)
    return Status::Unavailable("the catalogue holds no GPU that PyTorch supports");
  return *best;
}

Result<std::string> DataFolder() {
  std::vector<std::string> places;
  const char* variable = std::getenv("MEMMODEL_DATA");
  if (variable != nullptr && *variable != '\0') {
    places.emplace_back(variable);
  } else {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (!error) {
      places.push_back((program.parent_path().parent_path() / "share/memmodel").string());
    }
    places.emplace_back(MEMMODEL_DEFAULT_DATA);
  }
  for (const std::string& place : places) {
    std::error_code error;
    if (std::filesystem::is_directory(place + "/devices", error)) return place;
  }
  return Status::Unavailable("memmodel's data folder was not found at " + places.back() +
                             "; set MEMMODEL_DATA to it");
}

std::string UserDataFolder() {
  if (const char* own = std::getenv("MEMMODEL_USER_DATA"); own != nullptr) return own;
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::string(data) + "/memmodel";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.local/share/memmodel" : "";
}

}  // namespace memmodel
