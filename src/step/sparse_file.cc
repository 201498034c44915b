#include "src/step/sparse_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace memmodel::step {

Result<std::shared_ptr<SparseFile>> SparseFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status::BadInput("cannot read " + path + ": " + std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::BadInput(path +
                            (S_ISDIR(info.st_mode) ? " is a directory" : " is not a regular file") +
                            "; expected a TorchScript .pt or a torch.export .pt2 file");
  }
  return std::shared_ptr<SparseFile>(new SparseFile(fd, static_cast<std::size_t>(info.st_size)));
}

SparseFile::~SparseFile() { close(fd_); }

std::size_t SparseFile::read(std::uint64_t position, void* buffer, std::size_t n,
                             const char*) const {
  if (position >= size_) return 0;
  n = std::min<std::size_t>(n, size_ - position);
  auto after = skipped_.upper_bound(position);
  if (after != skipped_.begin()) {
    const auto& [start, length] = *std::prev(after);
    if (position + n <= start + length) return n;
  }
  std::size_t done = 0;
  while (done < n) {
    const ssize_t got = pread(fd_, static_cast<char*>(buffer) + done, n - done,
                              static_cast<off_t>(position + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace memmodel::step
