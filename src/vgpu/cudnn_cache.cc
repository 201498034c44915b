#include "src/vgpu/cudnn_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/core/atomic_file.h"

namespace memmodel::vgpu {
namespace {

// A cache of every network of a large model library stays far below this.
constexpr std::size_t kLargestFile = std::size_t{1} << 28;
constexpr std::size_t kPrefix = 24;

std::uint32_t CheckSum(const Digest& digest, std::string_view answer) {
  const Digest sum = Digester().Add(digest).Add(answer.size()).Add(answer).digest();
  return static_cast<std::uint32_t>(sum.low ^ (sum.low >> 32));
}

std::string Record(const Digest& digest, std::string_view answer) {
  const auto length = static_cast<std::uint32_t>(answer.size());
  const std::uint32_t sum = CheckSum(digest, answer);
  std::string record(kPrefix, '\0');
  std::memcpy(record.data(), &digest, sizeof digest);
  std::memcpy(record.data() + 16, &length, sizeof length);
  std::memcpy(record.data() + 20, &sum, sizeof sum);
  return record.append(answer);
}

}  // namespace

Digester& Digester::Add(std::string_view bytes) {
  constexpr Word kPrime = (Word{1} << 88) | 0x13b;
  for (const char byte : bytes) {
    state_ = (state_ ^ static_cast<unsigned char>(byte)) * kPrime;
  }
  return *this;
}

CudnnCache::CudnnCache(std::string path, std::string header)
    : path_(std::move(path)), header_(std::move(header)) {
  if (path_.empty() || access(path_.c_str(), F_OK) != 0) return;
  damaged_ = true;
  const Result<std::string> text = ReadFile(path_, kLargestFile);
  if (!text.ok() || !text->starts_with(header_)) return;
  std::string_view rest = std::string_view(*text).substr(header_.size());
  while (!rest.empty()) {
    Digest digest;
    std::uint32_t length = 0;
    std::uint32_t sum = 0;
    if (rest.size() < kPrefix) return;
    std::memcpy(&digest, rest.data(), sizeof digest);
    std::memcpy(&length, rest.data() + 16, sizeof length);
    std::memcpy(&sum, rest.data() + 20, sizeof sum);
    const std::string_view answer = rest.substr(kPrefix, length);
    if (answer.size() != length || CheckSum(digest, answer) != sum) return;
    answers_.insert_or_assign(digest, std::string(answer));
    rest.remove_prefix(kPrefix + length);
  }
  damaged_ = false;
}

const std::string* CudnnCache::Find(const Digest& digest) const {
  const auto found = answers_.find(digest);
  return found == answers_.end() ? nullptr : &found->second;
}

void CudnnCache::Add(const Digest& digest, std::string_view answer) {
  answers_.insert_or_assign(digest, std::string(answer));
  if (!path_.empty()) added_ += Record(digest, answer);
}

void CudnnCache::Flush() {
  if (added_.empty()) return;
  if (damaged_) {
    std::string text = header_;
    for (const auto& [digest, answer] : answers_) text += Record(digest, answer);
    damaged_ = false;
    if (!WriteFileAtomically(path_, text).ok()) path_.clear();
  } else if (!Append(added_)) {
    path_.clear();
  }
  added_.clear();
}

// Makes the file if it is not there; another process may do so at the same time.
bool CudnnCache::Append(std::string_view records) {
  if (access(path_.c_str(), F_OK) != 0) {
    const std::string fresh = path_ + "." + std::to_string(getpid());
    if (!WriteFileAtomically(fresh, header_).ok()) return false;
    const bool linked = link(fresh.c_str(), path_.c_str()) == 0 || errno == EEXIST;
    unlink(fresh.c_str());
    if (!linked) return false;
  }
  const int file = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  const bool whole =
      write(file, records.data(), records.size()) == static_cast<ssize_t>(records.size());
  close(file);
  return whole;
}

}  // namespace memmodel::vgpu
