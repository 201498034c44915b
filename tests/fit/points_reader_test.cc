#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "memmodel/fit.h"

namespace memmodel {
namespace {

std::string WriteFile(const char* text) {
  std::string path = "/tmp/memmodel-points-" + std::to_string(getpid()) + ".csv";
  std::FILE* file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs(text, file);
  std::fclose(file);
  return path;
}

TEST_CASE("points carry the precision that was written") {
  const auto points = ParsePoints("8:3.8GB, 1:2.1GB,32:8.40GB,64:16000000000");
  REQUIRE(points.ok());
  REQUIRE(points->size() == 4);
  CHECK((*points)[0].batch == 1);
  CHECK((*points)[0].bytes == 2100000000);
  CHECK((*points)[0].tolerance == 50000000);   // half of 0.1 GB
  CHECK((*points)[2].tolerance == 20 * kMiB);  // half of 0.01 GB is less
  CHECK((*points)[3].bytes == 16000000000);
  CHECK((*points)[3].tolerance == 20 * kMiB);
}

TEST_CASE("what is wrong with a point is said") {
  CHECK(ParsePoints("8").status().message().find("BATCH:SIZE") != std::string::npos);
  CHECK(ParsePoints("x:3GB").status().message().find("'x' is not a batch") != std::string::npos);
  CHECK(ParsePoints("0:3GB").status().code() == StatusCode::kInvalidArgument);
  CHECK(ParsePoints("8:3.8").status().message().find("is a unit missing") != std::string::npos);
  CHECK(ParsePoints("8:3GB,8:4GB").status().message() == "two points at batch 8");
  CHECK_FALSE(ParsePoints("").ok());
}

TEST_CASE("a CSV file is read by its header") {
  const std::string path = WriteFile("name,batch,nvml\nx,1,2103443456\ny,16,\"3000000000\"\n\n");
  const auto points = ReadPointsCsv(path);
  REQUIRE(points.ok());
  REQUIRE(points->size() == 2);
  CHECK((*points)[1].bytes == 3000000000);
  CHECK(ReadPointsCsv(WriteFile("a,b\n1,2\n")).status().message().find("'batch' and 'bytes'") !=
        std::string::npos);
  CHECK(ReadPointsCsv(WriteFile("batch,bytes\n1\n")).status().message().find(":2: 1 fields") !=
        std::string::npos);
  CHECK(ReadPointsCsv(WriteFile("")).status().code() == StatusCode::kBadInput);
  std::remove(path.c_str());
  CHECK(ReadPointsCsv(path).status().code() == StatusCode::kBadInput);
}

}  // namespace
}  // namespace memmodel
