// Expected values: what ptxas -v said of cubins/scale.ptx, and the layout of its parameters.
#include "src/vgpu/cubin.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace memmodel::vgpu {
namespace {

std::string File(const std::string& name) {
  std::ifstream file(MEMMODEL_SOURCE_DIR "/tests/vgpu/cubins/" + name, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a cubin says what its kernel needs and where its parameters lie") {
  for (const char* name : {"scale_sm90.cubin", "scale_sm80.cubin"}) {
    CAPTURE(name);
    const std::string image = File(name);
    const auto cubin = ReadCubin(image.data(), image.size());
    REQUIRE(cubin);
    CHECK(cubin->Find("other") == nullptr);
    const KernelCode* code = cubin->Find("scale");
    REQUIRE(code != nullptr);
    CHECK(code->registers == 14);
    CHECK(code->local_bytes == 64);
    CHECK(code->shared_bytes == 1024);
    CHECK(code->threads == 128);
    REQUIRE(code->parameters.size() == 4);
    constexpr std::uint32_t kOffsets[] = {0, 8, 16, 20};
    constexpr std::uint32_t kBytes[] = {8, 8, 4, 4};
    for (const KernelParameter& parameter : code->parameters) {
      REQUIRE(parameter.ordinal < 4);
      CHECK(parameter.offset == kOffsets[parameter.ordinal]);
      CHECK(parameter.bytes == kBytes[parameter.ordinal]);
    }
  }
}

TEST_CASE("what is cut off or no cubin is none") {
  const std::string image = File("scale_sm90.cubin");
  CHECK_FALSE(ReadCubin(nullptr, 0));
  CHECK_FALSE(ReadCubin("", 1));
  const std::string text = ".version 8.0\n.target sm_90\n";
  CHECK_FALSE(ReadCubin(text.data(), text.size()));
  // Behind the section headers are 5 program headers of 56 bytes alone.
  for (std::size_t size = 0; size + 5 * 56 < image.size(); ++size) {
    const std::string cut = image.substr(0, size);
    REQUIRE_FALSE(ReadCubin(cut.data(), cut.size()));
  }
}

}  // namespace memmodel::vgpu
