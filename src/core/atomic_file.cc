#include "src/core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace memmodel {
namespace {

Status WriteError(const std::string& path, int error) {
  return Status::BadInput("cannot write " + path + ": " + std::strerror(error));
}

// 0, or the errno of the first failing call.
int WriteAll(int fd, std::span<const std::string_view> pieces) {
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const ssize_t count = write(fd, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno;
      piece.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  return 0;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, std::string_view contents) {
  return WriteFileAtomically(path, std::span(&contents, 1));
}

Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces) {
  struct stat existing {};
  if (stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode)) {
    if (S_ISDIR(existing.st_mode)) return WriteError(path, EISDIR);
    // A pipe or device such as /dev/stdout: nothing to replace, write through.
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return WriteError(path, errno);
    const int error = WriteAll(fd, pieces);
    close(fd);
    return error == 0 ? Status::Ok() : WriteError(path, error);
  }
  std::string temporary = path + ".tmp-XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return WriteError(path, errno);
  int error = WriteAll(fd, pieces);
  const mode_t mask = umask(0);
  umask(mask);
  if (error == 0 && fchmod(fd, 0666 & ~mask) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    return WriteError(path, error);
  }
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path, std::size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::BadInput("cannot read " + path + ": " + std::strerror(errno));
  std::string contents;
  std::string buffer(std::size_t{1} << 16, '\0');
  while (true) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = errno;
      close(fd);
      if (count < 0) return Status::BadInput("cannot read " + path + ": " + std::strerror(error));
      return contents;
    }
    contents.append(buffer.data(), static_cast<std::size_t>(count));
    if (contents.size() > limit) {
      close(fd);
      return Status::BadInput(path + " is larger than " + std::to_string(limit) + " bytes");
    }
  }
}

}  // namespace memmodel
