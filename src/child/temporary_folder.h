// A folder that goes when its owner does.
#ifndef MEMMODEL_SRC_CHILD_TEMPORARY_FOLDER_H_
#define MEMMODEL_SRC_CHILD_TEMPORARY_FOLDER_H_

#include <string>

#include "memmodel/status.h"

namespace memmodel {

// Made below TMPDIR (or /tmp), readable by the user alone; removed with all that
// is in it by the destructor. Not copyable: one owner.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // "" after a move
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CHILD_TEMPORARY_FOLDER_H_
