#include "src/vgpu/cudnn_cache.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "src/core/atomic_file.h"

namespace memmodel::vgpu {
namespace {

constexpr const char* kHeader = "answers of a test\n";

struct TemporaryFile {
  TemporaryFile() {
    char name[] = "/tmp/memmodel-test-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/answers";
  }
  ~TemporaryFile() { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string Contents() const { return *ReadFile(path, std::size_t{1} << 30); }
  std::string folder, path;
};

Digest Key(int i) { return Digester().Add(i).digest(); }

// Enough for the log to be sorted in when the file is opened next.
constexpr int kMany = 60000;
void FillTwice(const std::string& path) {
  CudnnCache cache(path, kHeader);
  for (int i = 0; i < kMany; ++i) cache.Add(Key(i), "answer " + std::to_string(i));
  cache.Flush();
}

}  // namespace

TEST_CASE("the digest is FNV-1a of 128 bits") {
  // The offset basis, and the test vector "a" of the FNV specification.
  CHECK(Digester().digest() == Digest{0x6c62272e07bb0142, 0x62b821756295c58d});
  CHECK(Digester().Add(std::string_view("a")).digest() ==
        Digest{0xd228cb696f1a8caf, 0x78912b704e4a8964});
}

TEST_CASE("answers of one process serve the next") {
  const TemporaryFile file;
  {
    CudnnCache cache(file.path, kHeader);
    cache.Add(Key(1), "one");
    cache.Add(Key(2), "");
    CHECK(*cache.Find(Key(1)) == "one");
    cache.Flush();
  }
  const CudnnCache cache(file.path, kHeader);
  REQUIRE(cache.Find(Key(1)) != nullptr);
  CHECK(*cache.Find(Key(1)) == "one");
  REQUIRE(cache.Find(Key(2)) != nullptr);
  CHECK(cache.Find(Key(2))->empty());
  CHECK(cache.Find(Key(3)) == nullptr);
}

TEST_CASE("a long log is sorted in, and every answer is found in the sorted part") {
  const TemporaryFile file;
  FillTwice(file.path);
  const std::size_t before = file.Contents().size();
  REQUIRE(before > CudnnCache::kLongestLog);
  { const CudnnCache sorts(file.path, kHeader); }
  const std::string text = file.Contents();
  std::uint64_t count = 0;
  std::memcpy(&count, text.data() + std::string_view(kHeader).size(), sizeof count);
  CHECK(count == kMany);
  CudnnCache cache(file.path, kHeader);
  for (int i = 0; i < kMany; ++i) {
    const std::string* answer = cache.Find(Key(i));
    REQUIRE(answer != nullptr);
    REQUIRE(*answer == "answer " + std::to_string(i));
  }
  cache.Add(Key(7), "another");  // the newer answer counts
  cache.Flush();
  CHECK(*CudnnCache(file.path, kHeader).Find(Key(7)) == "another");
}

TEST_CASE("two processes that append at the same time lose nothing") {
  const TemporaryFile file;
  CudnnCache first(file.path, kHeader);
  CudnnCache second(file.path, kHeader);
  first.Add(Key(1), "one");
  second.Add(Key(2), "two");
  first.Flush();
  second.Flush();
  const CudnnCache both(file.path, kHeader);
  CHECK(both.Find(Key(1)) != nullptr);
  CHECK(both.Find(Key(2)) != nullptr);
}

TEST_CASE("damage costs what lies behind it, never a wrong answer") {
  const TemporaryFile file;
  FillTwice(file.path);
  { const CudnnCache sorts(file.path, kHeader); }
  {
    CudnnCache cache(file.path, kHeader);
    cache.Add(Key(kMany), "in the log");
    cache.Flush();
  }
  const std::string whole = file.Contents();
  for (std::size_t at = 3; at < whole.size(); at += whole.size() / 61) {
    CAPTURE(at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    REQUIRE(WriteFileAtomically(file.path, damaged).ok());
    CudnnCache cache(file.path, kHeader);
    for (int i = 0; i < kMany; i += 997) {
      const std::string* answer = cache.Find(Key(i));
      if (answer != nullptr) REQUIRE(*answer == "answer " + std::to_string(i));
    }
    cache.Add(Key(-1), "new");
    cache.Flush();
    CHECK(*CudnnCache(file.path, kHeader).Find(Key(-1)) == "new");
  }
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{5}, std::size_t{20}, whole.size() - 1}) {
    CAPTURE(length);
    REQUIRE(WriteFileAtomically(file.path, whole.substr(0, length)).ok());
    CudnnCache cache(file.path, kHeader);
    CHECK(cache.Find(Key(kMany)) == nullptr);
    cache.Add(Key(-1), "new");
    cache.Flush();
    CHECK(CudnnCache(file.path, kHeader).Find(Key(-1)) != nullptr);
  }
}

TEST_CASE("without a file, or in a folder that is not there, answers serve this process") {
  for (const char* path : {"", "/no/such/folder/answers"}) {
    CAPTURE(path);
    CudnnCache cache(path, kHeader);
    cache.Add(Key(1), "one");
    cache.Flush();
    REQUIRE(cache.Find(Key(1)) != nullptr);
    CHECK(*cache.Find(Key(1)) == "one");
  }
}

}  // namespace memmodel::vgpu
