// Answers of cuDNN, kept in a file that several processes share.
#ifndef MEMMODEL_SRC_VGPU_CUDNN_CACHE_H_
#define MEMMODEL_SRC_VGPU_CUDNN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace memmodel::vgpu {

// A 128-bit digest of what was asked.
struct Digest {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Digest&) const = default;
};

// FNV-1a with 128 bits, fed piece by piece.
class Digester {
 public:
  Digester& Add(std::string_view bytes);
  template <typename T>
  requires std::is_trivially_copyable_v<T> &&(!std::is_pointer_v<T>)Digester& Add(const T& value) {
    return Add(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }
  [[nodiscard]] Digest digest() const {
    return {static_cast<std::uint64_t>(state_ >> 64), static_cast<std::uint64_t>(state_)};
  }

 private:
  __extension__ using Word = unsigned __int128;
  Word state_ = (Word{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
};

// The file, integers as the machine stores them:
//   `header`, a line of text that ends in a newline
//   8 bytes  n, the number of sorted answers; 8 bytes  d, the bytes of their text
//   n entries of 32 bytes, sorted by digest: the digest (high word first, 16
//     bytes), offset (8) and length (4) of the answer in the text, check sum (4)
//   d bytes  the text
//   the log: records of digest (16), length (4), check sum (4), answer
// The sorted part is mapped and searched; only the log is read when the file is
// opened, and a process that finds a log of more than kLongestLog bytes sorts
// it in (a new file, renamed into place). Records are appended whole by one
// write, so that processes do not mix. What follows the first record that is
// cut off or whose check sum is wrong is not used; the file is then written
// anew with the next answers.
//
// Not thread-safe.
class CudnnCache {
 public:
  static constexpr std::size_t kLongestLog = std::size_t{1} << 20;

  // Opens `path`, if it is there and starts with `header`. An empty path keeps
  // answers in memory alone.
  CudnnCache(std::string path, std::string header);
  ~CudnnCache();
  CudnnCache(const CudnnCache&) = delete;
  CudnnCache& operator=(const CudnnCache&) = delete;

  // The text stays valid until the cache goes.
  [[nodiscard]] const std::string* Find(const Digest& digest) const;
  // To be found from now on, and in the file after the next Flush.
  void Add(const Digest& digest, std::string_view answer);
  // Appends what was added to the file. A folder that cannot be written is not
  // an error: the answers then serve this process alone.
  void Flush();

 private:
  struct Hash {
    std::size_t operator()(const Digest& digest) const { return digest.low; }
  };
  struct Entry;

  void Map();
  [[nodiscard]] bool ReadLog(std::string_view log);
  // Writes the file anew with the log sorted in; without the sorted part if
  // that is too large to keep.
  [[nodiscard]] bool WriteSorted() const;
  bool Append(std::string_view records);

  std::string path_;
  std::string header_;
  std::string added_;  // records not yet in the file
  bool damaged_ = false;
  const char* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  const char* entries_ = nullptr;  // in the mapping; not aligned
  std::uint64_t entry_count_ = 0;
  std::string_view text_;
  mutable std::unordered_map<Digest, std::string, Hash>
      answers_;  // the log, what was found, what was added
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_CACHE_H_
