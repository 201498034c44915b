// Convolution workspaces that were asked of cuDNN on the GPU itself.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_TABLE_H_
#define MEMMODEL_SRC_VGPU_CUDNN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "memmodel/status.h"

namespace memmodel::vgpu {

// A calibrated table (docs/cudnn.md): text whose first line is
//   # memmodel cudnn plans 1; cudnn VERSION; device NAME; source ...
// followed by lines `KEY WORKSPACE ENGINE` in the order of their bytes, where
// KEY is that of PlanKey (cudnn_plan.h). The file is mapped, not read.
class PlanTable {
 public:
  struct Row {
    std::int64_t workspace = 0;  // bytes
    std::int64_t engine = -1;    // global index
  };

  static Result<PlanTable> Open(const std::string& path);
  PlanTable() = default;
  PlanTable(PlanTable&& other) noexcept;
  PlanTable& operator=(PlanTable&& other) noexcept;
  ~PlanTable();

  [[nodiscard]] std::optional<Row> Find(std::string_view key) const;
  // Of the first line; 0 and empty for a table that is not open.
  [[nodiscard]] std::int64_t cudnn_version() const { return cudnn_version_; }
  [[nodiscard]] const std::string& device() const { return device_; }

 private:
  const char* mapped_ = nullptr;
  std::size_t bytes_ = 0;
  std::string_view rows_;
  std::int64_t cudnn_version_ = 0;
  std::string device_;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_TABLE_H_
