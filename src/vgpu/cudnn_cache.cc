#include "src/vgpu/cudnn_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "src/core/atomic_file.h"

namespace memmodel::vgpu {
namespace {

// Beyond this the sorted part is given up, and the file grows anew.
constexpr std::size_t kLargestFile = std::size_t{1} << 26;
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

// An entry of the sorted part, as it lies in the file.
struct CudnnCache::Entry {
  Digest digest;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t sum = 0;
};

CudnnCache::CudnnCache(std::string path, std::string header)
    : path_(std::move(path)), header_(std::move(header)) {
  static_assert(sizeof(Entry) == 32 && std::is_trivially_copyable_v<Entry>);
  if (!path_.empty()) Map();
}

CudnnCache::~CudnnCache() {
  if (mapped_ != nullptr) munmap(const_cast<char*>(mapped_), mapped_bytes_);
}

void CudnnCache::Map() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // none yet
  damaged_ = true;
  struct stat info {};
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    mapped_bytes_ = static_cast<std::size_t>(info.st_size);
    void* const mapped = mmap(nullptr, mapped_bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped != MAP_FAILED) mapped_ = static_cast<const char*>(mapped);
  }
  close(file);
  if (mapped_ == nullptr) return;
  std::string_view rest(mapped_, mapped_bytes_);
  std::uint64_t counts[2] = {};
  if (!rest.starts_with(header_) || rest.size() < header_.size() + sizeof counts) return;
  std::memcpy(counts, rest.data() + header_.size(), sizeof counts);
  rest.remove_prefix(header_.size() + sizeof counts);
  if (counts[0] > rest.size() / sizeof(Entry) ||
      counts[1] > rest.size() - counts[0] * sizeof(Entry)) {
    return;
  }
  entries_ = rest.data();
  entry_count_ = counts[0];
  rest.remove_prefix(entry_count_ * sizeof(Entry));
  text_ = rest.substr(0, counts[1]);
  rest.remove_prefix(counts[1]);
  if (!ReadLog(rest)) return;
  damaged_ = false;
  if (rest.size() > kLongestLog && !WriteSorted()) path_.clear();
}

bool CudnnCache::ReadLog(std::string_view log) {
  while (!log.empty()) {
    Digest digest;
    std::uint32_t length = 0;
    std::uint32_t sum = 0;
    if (log.size() < kPrefix) return false;
    std::memcpy(&digest, log.data(), sizeof digest);
    std::memcpy(&length, log.data() + 16, sizeof length);
    std::memcpy(&sum, log.data() + 20, sizeof sum);
    const std::string_view answer = log.substr(kPrefix, length);
    if (answer.size() != length || CheckSum(digest, answer) != sum) return false;
    answers_.insert_or_assign(digest, std::string(answer));
    log.remove_prefix(kPrefix + length);
  }
  return true;
}

const std::string* CudnnCache::Find(const Digest& digest) const {
  if (const auto found = answers_.find(digest); found != answers_.end()) return &found->second;
  const auto less = [](const Digest& a, const Digest& b) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  };
  std::uint64_t low = 0;
  std::uint64_t high = entry_count_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    Entry entry;
    std::memcpy(&entry, entries_ + middle * sizeof entry, sizeof entry);
    if (entry.digest == digest) {
      if (entry.offset > text_.size() || entry.length > text_.size() - entry.offset) return nullptr;
      const std::string_view answer = text_.substr(entry.offset, entry.length);
      if (CheckSum(digest, answer) != entry.sum) return nullptr;
      return &answers_.emplace(digest, answer).first->second;
    }
    if (less(entry.digest, digest)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

void CudnnCache::Add(const Digest& digest, std::string_view answer) {
  answers_.insert_or_assign(digest, std::string(answer));
  if (!path_.empty()) added_ += Record(digest, answer);
}

bool CudnnCache::WriteSorted() const {
  const auto order = [](const Entry& a, const Entry& b) {
    return a.digest.high != b.digest.high ? a.digest.high < b.digest.high
                                          : a.digest.low < b.digest.low;
  };
  std::vector<Entry> log;
  std::string log_text;
  for (const auto& [digest, answer] : answers_) {
    log.push_back({digest, log_text.size(), static_cast<std::uint32_t>(answer.size()),
                   CheckSum(digest, answer)});
    log_text += answer;
  }
  std::sort(log.begin(), log.end(), order);
  std::vector<Entry> kept;
  if (mapped_bytes_ <= kLargestFile) {
    kept.resize(entry_count_);
    if (entry_count_ > 0) std::memcpy(kept.data(), entries_, entry_count_ * sizeof(Entry));
    // Of a damaged file, only what can be searched.
    if (!std::is_sorted(kept.begin(), kept.end(), order)) kept.clear();
  }
  const std::string_view kept_text = kept.empty() ? std::string_view() : text_;
  for (Entry& entry : log) entry.offset += kept_text.size();
  // Where both have a digest, set_union takes the log's.
  std::vector<Entry> all;
  all.reserve(log.size() + kept.size());
  std::set_union(log.begin(), log.end(), kept.begin(), kept.end(), std::back_inserter(all), order);
  const std::uint64_t counts[2] = {all.size(), kept_text.size() + log_text.size()};
  const auto bytes = [](const auto* data, std::size_t count) {
    return std::string_view(reinterpret_cast<const char*>(data), count * sizeof *data);
  };
  const std::string_view pieces[] = {header_, bytes(counts, 2), bytes(all.data(), all.size()),
                                     kept_text, log_text};
  return WriteFileAtomically(path_, pieces).ok();
}

void CudnnCache::Flush() {
  if (added_.empty()) return;
  if (damaged_) {
    damaged_ = false;
    if (!WriteSorted()) path_.clear();
  } else if (!Append(added_)) {
    path_.clear();
  }
  added_.clear();
}

// Makes the file if it is not there; another process may do so at the same time.
bool CudnnCache::Append(std::string_view records) {
  if (access(path_.c_str(), F_OK) != 0) {
    const std::string fresh = path_ + "." + std::to_string(getpid());
    if (!WriteFileAtomically(fresh, header_ + std::string(16, '\0')).ok()) return false;
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
