#include "src/vgpu/fatbin.h"

#include <cstring>

namespace memmodel::vgpu {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;
constexpr std::uint32_t kContainerMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kCode = 2;

struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const char* container;
};

struct Container {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;
};

struct Entry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes;
  std::uint32_t unused1[2];
  std::uint32_t architecture;
  std::uint32_t unused2[2];
  std::uint64_t flags;
  std::uint64_t unused3;
  std::uint64_t decompressed_bytes;
};
static_assert(sizeof(Entry) == 64);

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Whether a device of `capability` prefers `entry` over `best`.
bool Better(const Entry& entry, int capability, const std::optional<CodeImage>& best) {
  const auto architecture = static_cast<int>(entry.architecture);
  if (architecture > capability) return false;
  if (entry.kind == kCode) {
    if (architecture / 10 != capability / 10) return false;
    return !best || best->ptx || best->architecture < architecture;
  }
  return entry.kind == kPtx && (!best || (best->ptx && best->architecture < architecture));
}

}  // namespace

std::optional<CodeImage> PickImage(const void* wrapper, int compute_capability) {
  if (wrapper == nullptr) return std::nullopt;
  const auto outer = Load<Wrapper>(static_cast<const char*>(wrapper));
  if (outer.magic != kWrapperMagic || outer.container == nullptr) return std::nullopt;
  const auto container = Load<Container>(outer.container);
  if (container.magic != kContainerMagic) return std::nullopt;
  const char* at = outer.container + container.header_bytes;
  std::uint64_t left = container.bytes;
  std::optional<CodeImage> best;
  while (left >= sizeof(Entry)) {
    const auto entry = Load<Entry>(at);
    if (entry.header_bytes < sizeof(Entry) || entry.header_bytes > left ||
        entry.bytes > left - entry.header_bytes) {
      break;
    }
    if (Better(entry, compute_capability, best)) {
      best = CodeImage{.architecture = static_cast<int>(entry.architecture),
                       .ptx = entry.kind == kPtx,
                       .bytes = entry.decompressed_bytes != 0 ? entry.decompressed_bytes
                                                              : entry.bytes};
    }
    at += entry.header_bytes + entry.bytes;
    left -= entry.header_bytes + entry.bytes;
  }
  return best;
}

}  // namespace memmodel::vgpu
