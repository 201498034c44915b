// The GPU catalogue: what is known of each GPU, and where it comes from. One
// file a GPU in data/devices (docs/devices.md).
#ifndef MEMMODEL_DEVICE_H_
#define MEMMODEL_DEVICE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "memmodel/status.h"

namespace memmodel {

// What a process holds on the card beside the memory that PyTorch reserves:
//   base + cublas_handle * (cuBLAS handles) + cudnn_handle * (cuDNN handles)
// and a few MiB for the code of the kernels that it loads. PyTorch opens one
// handle in each thread that uses the library: forward's and backward's.
struct ContextFigures {
  Bytes base = 0;  // the primary context, with the first kernel of torch's library
  std::optional<Bytes> cublas_handle;
  std::optional<Bytes> cudnn_handle;
  // Memory of the card that no process can have.
  std::optional<Bytes> system;
  // How far the real figure may lie below and above what the rule gives.
  std::optional<Bytes> below, above;
};

struct FigureSource {
  std::vector<std::string> fields;  // "memory.total_bytes", "cuda.*"
  std::string kind;                 // "measured", "datasheet", "published", "estimate"
  std::string source;               // where it can be looked up
};

struct Device {
  std::string name;                  // "rtx4090": what --gpu takes
  std::string device_name;           // "NVIDIA GeForce RTX 4090"
  std::vector<std::string> aliases;  // further names that --gpu takes
  std::string provenance;            // "measured" or "datasheet"
  std::string path;                  // of the file
  Bytes total_bytes = 0;             // as torch and cudaDeviceProp report it
  std::int64_t memory_gb = 0;        // as it is sold: 24
  ContextFigures context;
  int major = 0, minor = 0;  // compute capability
  std::int64_t multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bus_bits = 0;
  // Why the torch and cuDNN that memmodel runs cannot use it, and what can; ""
  // if they can.
  std::string unsupported;
  std::vector<FigureSource> sources;

  // "measured", "estimate", ...: of the first source that fits `field`.
  [[nodiscard]] std::string_view SourceKind(std::string_view field) const;
};

class DeviceCatalogue {
 public:
  // The catalogue of DataFolder(), with the devices of UserDataFolder() in place of those
  // of the same name. Errors as Read; a user's folder that is missing is none.
  static Result<DeviceCatalogue> ReadAll();

  // Reads all files of `folder` that end in ".json". Errors: kUnavailable if the
  // folder is missing, kBadInput for a file of another shape.
  static Result<DeviceCatalogue> Read(const std::string& folder);

  // By capacity, then by name.
  [[nodiscard]] const std::vector<Device>& devices() const { return devices_; }

  // The device with this cudaDeviceProp.name; null if there is none.
  [[nodiscard]] const Device* FindDeviceName(std::string_view device_name) const;

  // By name or alias, without regard to case, spaces, - and _. InvalidArgument
  // with the nearest name if there is none.
  [[nodiscard]] Result<Device> Find(std::string_view name) const;

  // A GPU that is sold with about this memory and that PyTorch supports: of
  // those nearest in size the first of `memory_classes.json`, else by name.
  [[nodiscard]] Result<Device> OfMemory(Bytes total) const;

 private:
  void Sort();

  std::vector<Device> devices_;
  std::vector<std::string> preferred_;
};

// Where data/ is: MEMMODEL_DATA of the environment, ../share/memmodel beside the
// program, or the folder that the build named.
Result<std::string> DataFolder();

// Where `memmodel calibrate` and `memmodel devices --add` write devices/NAME.json and
// cudnn/NAME.plans, which are used before DataFolder()'s: MEMMODEL_USER_DATA of the
// environment, else memmodel in XDG_DATA_HOME or ~/.local/share; "" if there is no home.
// It need not exist.
std::string UserDataFolder();

// Writes a device file (docs/devices.md) to the user's folder, once all that reads device
// files takes it. `origin` names it in messages. Returns the device as it reads now.
Result<Device> AddDevice(std::string_view text, const std::string& origin);

}  // namespace memmodel

#endif  // MEMMODEL_DEVICE_H_
