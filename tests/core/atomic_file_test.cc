#include "src/core/atomic_file.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace memmodel {
namespace {

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/memmodel-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace

TEST_CASE("a file is replaced whole, and nothing else stays in its folder") {
  TemporaryFolder folder;
  const std::string path = folder.path + "/x";
  REQUIRE(WriteFileAtomically(path, "first").ok());
  REQUIRE(WriteFileAtomically(path, "second").ok());
  CHECK(*ReadFile(path, 100) == "second");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("a full disk leaves what was there") {
  const Status full = WriteFileAtomically("/dev/full", "text");
  REQUIRE_FALSE(full.ok());
  CHECK(full.message() == "cannot write /dev/full: No space left on device");
}

TEST_CASE("folders and missing folders are refused by name") {
  TemporaryFolder folder;
  CHECK(WriteFileAtomically(folder.path, "x").message().find("Is a directory") != std::string::npos);
  CHECK_FALSE(WriteFileAtomically(folder.path + "/no/such", "x").ok());
  CHECK_FALSE(ReadFile(folder.path + "/none", 10).ok());
}

TEST_CASE("a file larger than the limit is refused") {
  TemporaryFolder folder;
  REQUIRE(WriteFileAtomically(folder.path + "/x", std::string(1000, 'x')).ok());
  CHECK_FALSE(ReadFile(folder.path + "/x", 999).ok());
  CHECK(ReadFile(folder.path + "/x", 1000).ok());
}

}  // namespace memmodel
