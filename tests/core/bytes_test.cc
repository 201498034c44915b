#include "memmodel/bytes.h"

#include <doctest/doctest.h>

namespace memmodel {

TEST_CASE("G and GiB are powers of 1024, GB is a power of 1000") {
  CHECK(*ParseBytes("24G") == 25769803776);
  CHECK(*ParseBytes("24GiB") == 25769803776);
  CHECK(*ParseBytes("24GB") == 24000000000);
  CHECK(*ParseBytes("2.1gb") == 2100000000);
  CHECK(*ParseBytes("800M") == 838860800);
  CHECK(*ParseBytes("1 KiB") == 1024);
  CHECK(*ParseBytes("17") == 17);
  CHECK(*ParseBytes("0.5k") == 512);
}

TEST_CASE("what is not a size is refused with the text that was given") {
  for (const char* text : {"", "G", "24X", "-1G", "1e3G", "1.2.3G", "24 G B", "999999999T", "nan", "0x10"}) {
    CAPTURE(text);
    const Result<Bytes> r = ParseBytes(text);
    REQUIRE_FALSE(r.ok());
    CHECK(r.status().code() == StatusCode::kInvalidArgument);
    CHECK(r.status().message().find(std::string("'") + text) != std::string::npos);
  }
}

TEST_CASE("amounts are shown with four significant digits") {
  CHECK(FormatBytes(512) == "512 B");
  CHECK(FormatBytes(1536) == "1.500 KiB");
  CHECK(FormatBytes(25769803776) == "24.00 GiB");
  CHECK(FormatBytes(150109880320) == "139.8 GiB");
}

}  // namespace memmodel
