#include "src/vgpu/shadow_bytes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

namespace memmodel::vgpu {

ShadowBytes::Range ShadowBytes::Part(const Range& range, std::uint64_t offset, std::uint64_t size) {
  Range part = {.size = size, .value = range.value, .launches = range.launches};
  if (!range.bytes.empty()) part.bytes = range.bytes.substr(offset, size);
  return part;
}

ShadowBytes::Ranges::const_iterator ShadowBytes::First(std::uint64_t address) const {
  auto range = ranges_.upper_bound(address);
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second.size > address) range = before;
  }
  return range;
}

void ShadowBytes::Forget(std::uint64_t address, std::uint64_t size) {
  if (size == 0) return;
  const std::uint64_t end = address + size;
  auto range = First(address);
  while (range != ranges_.end() && range->first < end) {
    const std::uint64_t begin = range->first;
    const Range old = range->second;
    range = ranges_.erase(range);
    if (begin < address) ranges_.emplace(begin, Part(old, 0, address - begin));
    if (begin + old.size > end) {
      range = ranges_.emplace(end, Part(old, end - begin, begin + old.size - end)).first;
    }
  }
}

void ShadowBytes::ForgetWith(std::uint64_t address) {
  const auto range = First(address);
  if (range != ranges_.end() && range->first <= address) ranges_.erase(range);
}

void ShadowBytes::Write(std::uint64_t address, const void* bytes, std::uint64_t size) {
  if (size > kLargestCopy) {
    Forget(address, size);
  } else {
    Know(address, bytes, size);
  }
}

void ShadowBytes::Know(std::uint64_t address, const void* bytes, std::uint64_t size) {
  Forget(address, size);
  if (size == 0) return;
  ranges_.emplace(address,
                  Range{.size = size, .bytes = std::string(static_cast<const char*>(bytes), size)});
}

void ShadowBytes::Fill(std::uint64_t address, unsigned char value, std::uint64_t size,
                       std::uint64_t launches) {
  Forget(address, size);
  if (size == 0) return;
  ranges_.emplace(address, Range{.size = size, .value = value, .launches = launches});
}

void ShadowBytes::Copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size,
                       std::uint64_t launches) {
  const std::uint64_t end = source + size;
  std::vector<std::pair<std::uint64_t, Range>> parts;
  for (auto range = First(source); range != ranges_.end() && range->first < end; ++range) {
    if (range->second.launches.value_or(launches) != launches) continue;
    const std::uint64_t begin = std::max(range->first, source);
    const std::uint64_t length = std::min(range->first + range->second.size, end) - begin;
    parts.emplace_back(begin - source + destination,
                       Part(range->second, begin - range->first, length));
  }
  Forget(destination, size);
  for (auto& [address, part] : parts) ranges_.emplace(address, std::move(part));
}

bool ShadowBytes::Read(std::uint64_t address, std::uint64_t size, std::uint64_t launches,
                       void* destination) const {
  const std::uint64_t end = address + size;
  std::uint64_t known = 0;
  for (auto range = First(address); range != ranges_.end() && range->first < end; ++range) {
    if (range->second.launches.value_or(launches) != launches) continue;
    const std::uint64_t begin = std::max(range->first, address);
    const std::uint64_t length = std::min(range->first + range->second.size, end) - begin;
    char* to = static_cast<char*>(destination) + (begin - address);
    if (range->second.bytes.empty()) {
      std::memset(to, range->second.value, length);
    } else {
      std::memcpy(to, range->second.bytes.data() + (begin - range->first), length);
    }
    known += length;
  }
  return known == size;
}

}  // namespace memmodel::vgpu
