#include <doctest/doctest.h>

#include "memmodel/trace.h"

namespace memmodel {

TEST_CASE("what is written is read back the same") {
  const std::string text =
      "! memmodel-trace 2\n= {}\no aten::relu\nm ReLU relu\n# load\nd cudnn_handle\nS 7f00 2097152 "
      "0 -1 -1\n"
      "w 0 0 0 fwd f32 1\na 7f00 512 1 0 0\nw 7f00 -1 -1 dgrad f32 2 3\nt gradient 7f00 512 "
      "fc.weight\nO 10 99 0 -1 -1\n# end\nw 0 0 -1 x\nr 2 0 0 aten::sum Float(2;1;0) none\n";
  const Result<Trace> trace = ParseTrace(text, "t");
  REQUIRE(trace.ok());
  CHECK(FormatTrace(*trace) == text);
}

TEST_CASE("a request stream holds the allocator's events, markers and occasions alone") {
  const Result<Trace> trace = ParseTrace(
      "! memmodel-trace 1\no x\n# load\nd first_kernel\na 7f00 512 1 0 -1\nt weight 7f00 512 w\nw "
      "7f00 0 -1 k\n",
      "t");
  REQUIRE(trace.ok());
  CHECK(FormatTrace(*trace, TraceDetail::kRequestsOnly) ==
        "# load\nd first_kernel\na 7f00 512 1\n");
}

}  // namespace memmodel
