#include "src/vgpu/fatbin.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

namespace memmodel::vgpu {
namespace {

template <typename T>
void Append(std::string* text, T value) {
  text->append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string Entry(std::uint16_t kind, std::uint32_t architecture, std::uint64_t bytes,
                  std::uint64_t decompressed) {
  std::string entry;
  Append<std::uint16_t>(&entry, kind);
  Append<std::uint16_t>(&entry, 0x101);
  Append<std::uint32_t>(&entry, 64);
  Append<std::uint64_t>(&entry, bytes);
  Append<std::uint32_t>(&entry, 0);
  Append<std::uint64_t>(&entry, 0);
  Append<std::uint32_t>(&entry, architecture);
  Append<std::uint64_t>(&entry, 0);
  Append<std::uint64_t>(&entry, 0);
  Append<std::uint64_t>(&entry, 0);
  Append<std::uint64_t>(&entry, decompressed);
  entry.append(bytes, 'x');
  return entry;
}

struct Fatbin {
  explicit Fatbin(const std::string& entries) {
    Append<std::uint32_t>(&container, 0xba55ed50);
    Append<std::uint16_t>(&container, 1);
    Append<std::uint16_t>(&container, 16);
    Append<std::uint64_t>(&container, entries.size());
    container += entries;
    Append<std::uint32_t>(&wrapper, 0x466243b1);
    Append<std::uint32_t>(&wrapper, 1);
    Append<const char*>(&wrapper, container.data());
    Append<std::uint64_t>(&wrapper, 0);
  }
  std::string container;
  std::string wrapper;
};

// The architectures of torch 2.11.0's CUDA 13 wheel.
TEST_CASE("a device takes code of its own generation, the newest not above it") {
  const Fatbin fatbin(Entry(2, 75, 8, 100) + Entry(2, 80, 8, 200) + Entry(2, 86, 8, 300) +
                      Entry(2, 90, 8, 400) + Entry(2, 100, 8, 500) + Entry(2, 120, 8, 600));
  CHECK(PickImage(fatbin.wrapper.data(), 75)->architecture == 75);
  CHECK(PickImage(fatbin.wrapper.data(), 80)->bytes == 200);
  CHECK(PickImage(fatbin.wrapper.data(), 86)->architecture == 86);
  CHECK(PickImage(fatbin.wrapper.data(), 89)->architecture == 86);  // RTX 4090
  CHECK(PickImage(fatbin.wrapper.data(), 90)->bytes == 400);        // H200
  CHECK(PickImage(fatbin.wrapper.data(), 121)->architecture == 120);
  CHECK_FALSE(PickImage(fatbin.wrapper.data(), 70).has_value());  // V100
  CHECK_FALSE(PickImage(fatbin.wrapper.data(), 110).has_value());
}

TEST_CASE("PTX serves where there is no code, and uncompressed images count as stored") {
  const Fatbin fatbin(Entry(1, 70, 16, 0) + Entry(1, 80, 24, 0) + Entry(2, 90, 8, 0));
  CHECK(PickImage(fatbin.wrapper.data(), 75)->ptx);
  CHECK(PickImage(fatbin.wrapper.data(), 75)->architecture == 70);
  CHECK(PickImage(fatbin.wrapper.data(), 86)->architecture == 80);
  CHECK(PickImage(fatbin.wrapper.data(), 86)->bytes == 24);
  CHECK_FALSE(PickImage(fatbin.wrapper.data(), 90)->ptx);
}

TEST_CASE("what is no fatbin holds nothing") {
  CHECK_FALSE(PickImage(nullptr, 90).has_value());
  std::string other(64, 'x');
  CHECK_FALSE(PickImage(other.data(), 90).has_value());
  Fatbin truncated(Entry(2, 90, 1000, 0));
  const std::uint64_t short_size = 70;  // the entry claims more than the container has
  std::memcpy(truncated.container.data() + 8, &short_size, sizeof short_size);
  CHECK_FALSE(PickImage(truncated.wrapper.data(), 90).has_value());
}

}  // namespace
}  // namespace memmodel::vgpu
