// The few bytes of device memory whose values are known.
//
// Nothing runs on the virtual GPU, so a byte is known only if the host put it
// there. What makes bytes known, and for how long:
//   - a copy from the host, up to kLargestCopy at once: until the bytes are
//     copied over, set, freed or forgotten (Forget: the caching allocator
//     handed the memory out anew);
//   - a copy between device addresses carries what is known of the source;
//   - a memset of any size: until anything is launched, since its target is
//     nearly always scratch that a kernel then writes.
// A launch is not known to write anything in particular: bytes from the host
// that a kernel changed in place still count as known. Callers that see an
// in-place operation call Forget; those that see the addresses that a kernel
// gets call ForgetWith.
#ifndef MEMMODEL_SRC_VGPU_SHADOW_BYTES_H_
#define MEMMODEL_SRC_VGPU_SHADOW_BYTES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace memmodel::vgpu {

// Not thread-safe.
class ShadowBytes {
 public:
  // A larger copy from the host makes its target unknown: shape constants,
  // labels and class counts are small, activations are not.
  static constexpr std::uint64_t kLargestCopy = std::uint64_t{64} << 10;

  // `launches` is the number of launches so far, here and below.
  void Write(std::uint64_t address, const void* bytes, std::uint64_t size);
  // The same for bytes that the caller chose to tell, of any size.
  void Know(std::uint64_t address, const void* bytes, std::uint64_t size);
  void Fill(std::uint64_t address, unsigned char value, std::uint64_t size, std::uint64_t launches);
  void Copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size,
            std::uint64_t launches);
  void Forget(std::uint64_t address, std::uint64_t size);
  // Whatever came with the byte at `address`, in one copy or fill.
  void ForgetWith(std::uint64_t address);

  // Copies what is known of [address, address + size) to `destination`, whose
  // other bytes are left alone. Returns whether all of it is known.
  bool Read(std::uint64_t address, std::uint64_t size, std::uint64_t launches,
            void* destination) const;

  [[nodiscard]] std::size_t ranges() const { return ranges_.size(); }

 private:
  struct Range {
    std::uint64_t size = 0;
    std::string bytes;                      // empty for a fill
    unsigned char value = 0;                // of a fill
    std::optional<std::uint64_t> launches;  // a fill is known while this is the count
  };
  using Ranges = std::map<std::uint64_t, Range>;

  static Range Part(const Range& range, std::uint64_t offset, std::uint64_t size);
  // The first range that reaches beyond `address`.
  [[nodiscard]] Ranges::const_iterator First(std::uint64_t address) const;

  Ranges ranges_;  // by address, disjoint
};

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_SHADOW_BYTES_H_
