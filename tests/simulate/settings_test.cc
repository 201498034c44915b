// Expected values are what c10::CachingAllocator::AcceleratorAllocatorConfig of
// torch 2.11.0 answered to the same strings.
#include "memmodel/allocator_settings.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace memmodel {
namespace {

AllocatorSettings Parse(const char* conf) {
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(conf);
  REQUIRE_MESSAGE(settings.ok(), settings.status().message());
  std::string reason;
  CHECK_MESSAGE(settings->IsValid(&reason), reason);
  return *settings;
}

std::string Refusal(const char* conf) {
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(conf);
  REQUIRE_FALSE(settings.ok());
  CHECK(settings.status().code() == StatusCode::kInvalidArgument);
  return settings.status().message();
}

using Table = std::array<std::int32_t, 16>;

TEST_CASE("defaults") {
  for (const char* conf : {"", " ", "backend:native"}) {
    const AllocatorSettings s = Parse(conf);
    CHECK(s.large_segment_size == 20971520);
    CHECK(s.max_split_size == AllocatorSettings::kNoLimit);
    CHECK(s.max_non_split_rounding == 20971520);
    CHECK(s.garbage_collection_threshold == 0);
    CHECK_FALSE(s.expandable_segments);
    CHECK(s.per_process_memory_fraction == 1.0);
    CHECK(s.roundup_power2_divisions == Table{});
  }
}

TEST_CASE("sizes") {
  CHECK(Parse("max_split_size_mb:64").max_split_size == 67108864);
  CHECK(Parse("max_split_size_mb:64MB").max_split_size == 67108864);
  CHECK(Parse("max_split_size_mb:40,max_split_size_mb:50").max_split_size == 52428800);
  CHECK(Parse("max_split_size_mb:64,").max_split_size == 67108864);
  CHECK(Parse("large_segment_size_mb:11").large_segment_size == 11534336);
  // The rounding's default is the large segment size, wherever that stands.
  CHECK(Parse("large_segment_size_mb:21").max_non_split_rounding == 22020096);
  CHECK(Parse("max_non_split_rounding_mb:40,large_segment_size_mb:32").max_non_split_rounding ==
        41943040);
  CHECK(Parse("garbage_collection_threshold:.7").garbage_collection_threshold == 0.7);
  CHECK(Parse(" max_split_size_mb : 64 , expandable_segments : False").max_split_size == 67108864);
  CHECK(Parse("expandable_segments:True").expandable_segments);
  CHECK(Parse("per_process_memory_fraction:0.5").per_process_memory_fraction == 0.5);
}

TEST_CASE("roundup_power2_divisions") {
  Table all8;
  all8.fill(8);
  CHECK(Parse("roundup_power2_divisions:8").roundup_power2_divisions == all8);
  CHECK(Parse("roundup_power2_divisions:[1:2,4:4,64:8,>:1]").roundup_power2_divisions ==
        Table{2, 0, 4, 0, 0, 0, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(Parse("roundup_power2_divisions:[256:1,512:2]").roundup_power2_divisions ==
        Table{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0});
  CHECK(Parse("roundup_power2_divisions:[64:8,1:2]").roundup_power2_divisions ==
        Table{2, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(Parse("roundup_power2_divisions:[>:4]").roundup_power2_divisions ==
        Table{0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
  CHECK(Parse("roundup_power2_divisions:[4:8,>:1,16:2]").roundup_power2_divisions ==
        Table{8, 8, 8, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  Table all4;
  all4.fill(4);
  CHECK(Parse("roundup_power2_divisions:[131072:4]").roundup_power2_divisions == all4);
  CHECK(Parse("roundup_power2_divisions:[]").roundup_power2_divisions == Table{});
}

TEST_CASE("what torch refuses is refused") {
  for (const char* conf :
       {"max_split_size_mb:10", "max_split_size_mb", "max_split_size_mb:", "max_split_size_mb:abc",
        "large_segment_size_mb:10", "large_segment_size_mb:32,max_split_size_mb:24",
        "max_split_size_mb:24,large_segment_size_mb:32", "max_non_split_rounding_mb:5",
        "garbage_collection_threshold:0", "garbage_collection_threshold:1",
        "expandable_segments:true", "roundup_power2_divisions:3", "roundup_power2_divisions:0",
        "roundup_power2_divisions:[3:1]", "roundup_power2_divisions:[64:3]",
        "roundup_power2_divisions:[256:1,512:2", "roundup_power2_divisions:[256:1;512:2]",
        "max_split_size_mb:64 expandable_segments:True", ":", "[", "]", ",", "a:[", "foo"}) {
    CAPTURE(conf);
    CHECK_FALSE(Refusal(conf).empty());
  }
}

TEST_CASE("messages say what is wrong and what is known") {
  const std::string unknown = Refusal("max_split_size:64");
  CHECK(unknown.find("'max_split_size'") != std::string::npos);
  CHECK(unknown.find("max_split_size_mb, per_process_memory_fraction") != std::string::npos);
  CHECK(Refusal("backend:cudaMallocAsync").find("cudaMallocAsync") != std::string::npos);
  CHECK(Refusal("max_split_size_mb:10").find("at least 20") != std::string::npos);
}

TEST_CASE("settings made by hand are checked") {
  AllocatorSettings s;
  std::string reason;
  s.max_split_size = kMiB;
  CHECK_FALSE(s.IsValid(&reason));
  CHECK(reason.find("max_split_size is 1048576") != std::string::npos);
}

TEST_CASE("PYTORCH_CUDA_ALLOC_CONF goes before PYTORCH_ALLOC_CONF") {
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:44", 1);
  CHECK(AllocatorConfFromEnvironment() == "max_split_size_mb:44");
  setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:33", 1);
  CHECK(AllocatorConfFromEnvironment() == "max_split_size_mb:33");
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  unsetenv("PYTORCH_ALLOC_CONF");
  CHECK(AllocatorConfFromEnvironment().empty());
}

}  // namespace
}  // namespace memmodel
