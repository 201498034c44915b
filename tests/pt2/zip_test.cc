#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "src/step/pt2_zip.h"

namespace memmodel::step {
namespace {

const std::string kArchives = std::string(MEMMODEL_TEST_DATA) + "/archives/";

// A path that no other process uses.
std::string TemporaryPath() {
  return (std::filesystem::temp_directory_path() / ("memmodel_pt2_" + std::to_string(getpid())))
      .string();
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file with `bytes` in it that goes with the object.
struct Temporary {
  explicit Temporary(const std::string& bytes) : path(TemporaryPath()) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~Temporary() { std::remove(path.c_str()); }
  std::string path;
};

TEST_CASE("stored and deflated records have the same contents") {
  const auto stored = ZipFile::Open(kArchives + "perceptron.pt2");
  const auto deflated = ZipFile::Open(kArchives + "perceptron_deflated.pt2");
  REQUIRE(stored.ok());
  REQUIRE(deflated.ok());
  CHECK(stored->Names() == deflated->Names());
  for (const std::string& name : stored->Names()) {
    const auto a = stored->Read(name, 1 << 20);
    const auto b = deflated->Read(name, 1 << 20);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    CHECK(*a == *b);
    CHECK(a->size() == stored->Size(name));
  }
  CHECK(*stored->Read("archive/archive_format", 100) == "pt2");
}

TEST_CASE("parts of a stored record; none of a packed one") {
  const auto stored = ZipFile::Open(kArchives + "perceptron.pt2");
  REQUIRE(stored.ok());
  char bytes[8] = {};
  CHECK(stored->ReadPart("archive/archive_format", 1, bytes, 8).value() == 2);
  CHECK(std::string(bytes) == "t2");
  CHECK(stored->ReadPart("archive/archive_format", 3, bytes, 8).value() == 0);
  const auto deflated = ZipFile::Open(kArchives + "perceptron_deflated.pt2");
  REQUIRE(deflated.ok());
  CHECK_FALSE(deflated->ReadPart("archive/models/model.json", 0, bytes, 8).ok());
}

TEST_CASE("a limit is kept") {
  const auto zip = ZipFile::Open(kArchives + "perceptron.pt2");
  REQUIRE(zip.ok());
  const auto record = zip->Read("archive/models/model.json", 10);
  REQUIRE_FALSE(record.ok());
  CHECK(record.status().message().find("at most 10") != std::string::npos);
}

TEST_CASE("missing files and records") {
  CHECK(ZipFile::Open("/no/such/file.pt2").status().code() == StatusCode::kBadInput);
  CHECK(ZipFile::Open("/").status().code() == StatusCode::kBadInput);
  const auto zip = ZipFile::Open(kArchives + "perceptron.pt2");
  REQUIRE(zip.ok());
  CHECK_FALSE(zip->Has("nothing"));
  CHECK_FALSE(zip->Read("nothing", 100).ok());
}

TEST_CASE("a file cut anywhere is refused or its records are") {
  const std::string whole = Contents(kArchives + "perceptron.pt2");
  REQUIRE(whole.size() > 1000);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    const Temporary cut(whole.substr(0, bytes));
    CHECK_FALSE(ZipFile::Open(cut.path).ok());
  }
}

TEST_CASE("any flipped byte is found, or does not matter to the record") {
  const std::string whole = Contents(kArchives + "perceptron.pt2");
  const auto good = ZipFile::Open(kArchives + "perceptron.pt2");
  REQUIRE(good.ok());
  const std::string model = *good->Read("archive/models/model.json", 1 << 20);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 31) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    const Temporary damaged(bytes);
    const auto zip = ZipFile::Open(damaged.path);
    const auto record = zip.ok() ? zip->Read("archive/models/model.json", 1 << 20)
                                 : Result<std::string>(zip.status());
    if (record.ok()) {
      CHECK(*record == model);
    } else {
      ++refused;
    }
  }
  CHECK(refused > 10);
}

}  // namespace
}  // namespace memmodel::step
