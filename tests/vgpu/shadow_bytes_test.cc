#include "src/vgpu/shadow_bytes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace memmodel::vgpu {
namespace {

constexpr std::uint64_t kBase = 0x2000'0000'0000;

// What is known of [address, address + size), unknown bytes as '?', and whether all is.
std::string Known(const ShadowBytes& shadow, std::uint64_t address, std::size_t size,
                  bool* all = nullptr, std::uint64_t launches = 0) {
  std::string bytes(size, '?');
  const bool complete = shadow.Read(address, size, launches, bytes.data());
  if (all != nullptr) *all = complete;
  CHECK(complete == (bytes.find('?') == std::string::npos));
  return bytes;
}

TEST_CASE("bytes from the host are known, in whole and in part") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcdefgh", 8);
  CHECK(Known(shadow, kBase, 8) == "abcdefgh");
  CHECK(Known(shadow, kBase + 2, 3) == "cde");
  CHECK(Known(shadow, kBase + 6, 4) == "gh??");
  CHECK(Known(shadow, kBase - 2, 4) == "??ab");
  CHECK(Known(shadow, kBase + 8, 1) == "?");
}

TEST_CASE("what the caller tells is known, of any size; a large copy from the host is not") {
  const std::string large(ShadowBytes::kLargestCopy + 1, 'x');
  ShadowBytes shadow;
  shadow.Know(kBase, large.data(), large.size());
  CHECK(Known(shadow, kBase, large.size()) == large);
  shadow.Write(kBase, large.data(), large.size());
  CHECK(Known(shadow, kBase, 2) == "??");
}

TEST_CASE("a later copy replaces the bytes it covers and no others") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcdefgh", 8);
  shadow.Write(kBase + 2, "XY", 2);
  CHECK(Known(shadow, kBase, 8) == "abXYefgh");
  shadow.Forget(kBase + 1, 2);
  CHECK(Known(shadow, kBase, 8) == "a??Yefgh");
  shadow.Forget(kBase, 8);
  CHECK(shadow.ranges() == 0);
}

TEST_CASE("a copy on the device carries what is known of its source") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcd", 4);
  shadow.Write(kBase + 100, "12345678", 8);
  shadow.Copy(kBase + 102, kBase + 2, 4, 0);  // "cd" and two unknown bytes
  CHECK(Known(shadow, kBase + 100, 8) == "12cd??78");
  CHECK(Known(shadow, kBase, 4) == "abcd");
}

TEST_CASE("a copy onto itself with an overlap moves") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcdefgh", 8);
  shadow.Copy(kBase + 2, kBase, 6, 0);
  CHECK(Known(shadow, kBase, 8) == "ababcdef");
}

TEST_CASE("a large copy from the host makes its target unknown") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcd", 4);
  const std::string large(ShadowBytes::kLargestCopy + 1, 'x');
  shadow.Write(kBase, large.data(), large.size());
  CHECK(Known(shadow, kBase, 4) == "????");
  shadow.Write(kBase, large.data(), ShadowBytes::kLargestCopy);
  CHECK(Known(shadow, kBase, 4) == "xxxx");
}

TEST_CASE("a memset is known until something is launched") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcd", 4);
  shadow.Fill(kBase + 2, 'z', std::uint64_t{1} << 40, /*launches=*/7);
  CHECK(Known(shadow, kBase, 4, nullptr, 7) == "abzz");
  CHECK(Known(shadow, kBase + (std::uint64_t{1} << 39), 2, nullptr, 7) == "zz");
  CHECK(Known(shadow, kBase, 4, nullptr, 8) == "ab??");
  shadow.Copy(kBase + 4, kBase, 4, 8);  // stale fills are not carried
  CHECK(Known(shadow, kBase + 4, 4, nullptr, 8) == "ab??");
}

TEST_CASE("empty ranges change nothing") {
  ShadowBytes shadow;
  shadow.Write(kBase, "abcd", 4);
  shadow.Forget(kBase + 1, 0);
  shadow.Write(kBase + 1, "", 0);
  shadow.Fill(kBase + 1, 0, 0, 0);
  shadow.Copy(kBase + 1, kBase, 0, 0);
  CHECK(Known(shadow, kBase, 4) == "abcd");
  CHECK(shadow.ranges() == 1);
}

}  // namespace
}  // namespace memmodel::vgpu
