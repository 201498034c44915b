#include "src/child/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace memmodel {

Result<TemporaryFolder> TemporaryFolder::Make() {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base != nullptr && *base != '\0' ? base : "/tmp") +
                     "/memmodel-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Status::Unavailable("cannot make a temporary folder " + path + ": " +
                               std::strerror(errno) + "; set TMPDIR to a folder with space");
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a leftover is no reason to fail an answer
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace memmodel
