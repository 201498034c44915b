#include <doctest/doctest.h>

#include "memmodel/trace.h"

namespace memmodel {

TEST_CASE("what is written is read back the same") {
  const std::string text =
      "! memmodel-trace 1\n= {}\no aten::relu\nm ReLU relu\n# load\nS 7f00 2097152 0 -1 -1\n"
      "a 7f00 512 1 0 0\nt gradient 7f00 512 fc.weight\nO 10 99 0 -1 -1\n# end\n";
  const Result<Trace> trace = ParseTrace(text, "t");
  REQUIRE(trace.ok());
  CHECK(FormatTrace(*trace) == text);
}

TEST_CASE("a request stream holds the allocator's events and markers alone") {
  const Result<Trace> trace =
      ParseTrace("! memmodel-trace 1\no x\n# load\na 7f00 512 1 0 -1\nt weight 7f00 512 w\n", "t");
  REQUIRE(trace.ok());
  CHECK(FormatTrace(*trace, TraceDetail::kRequestsOnly) == "# load\na 7f00 512 1\n");
}

}  // namespace memmodel
