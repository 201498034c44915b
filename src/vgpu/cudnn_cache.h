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

// The file: `header`, a line of text that ends in a newline, then records of
//   16 bytes  the digest, high word first, as the machine stores it
//    4 bytes  length of the answer
//    4 bytes  check sum of digest, length and answer
//    n bytes  the answer
// Records are appended whole by one write, so that processes do not mix. What
// follows the first record that is cut off or whose check sum is wrong is not
// used; the file is then written anew with the next answers.
//
// Not thread-safe.
class CudnnCache {
 public:
  // Reads `path`, if it is there and starts with `header`. An empty path keeps
  // answers in memory alone.
  CudnnCache(std::string path, std::string header);

  [[nodiscard]] const std::string* Find(const Digest& digest) const;
  // To be found from now on, and in the file after the next Flush.
  void Add(const Digest& digest, std::string_view answer);
  // Appends what was added to the file. A folder that cannot be written is not
  // an error: the answers then serve this process alone.
  void Flush();
  [[nodiscard]] std::size_t size() const { return answers_.size(); }

 private:
  struct Hash {
    std::size_t operator()(const Digest& digest) const { return digest.low; }
  };
  bool Append(std::string_view records);

  std::string path_;
  std::string header_;
  std::string added_;  // records not yet in the file
  bool damaged_ = false;
  std::unordered_map<Digest, std::string, Hash> answers_;
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUDNN_CACHE_H_
