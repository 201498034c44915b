#include <doctest/doctest.h>

#include "memmodel/trace.h"

namespace memmodel {
namespace {

constexpr const char* kSmall =
    "! memmodel-trace 1\n= {\"batch\":2}\no aten::conv2d\nm Conv2d layer1.0.conv1\n# step b=2\n"
    "S 7f0000000000 2097152 0\na 7f0000000000 37632 0 0 0\nt weight 7f0000000000 37632 "
    "conv1.weight\n"
    "f 7f0000000000 37632 0\n";

}  // namespace

TEST_CASE("every record of a full trace is read") {
  const Result<Trace> trace = ParseTrace(kSmall, "small");
  REQUIRE(trace.ok());
  REQUIRE(trace->events.size() == 5);
  CHECK(trace->metadata == "{\"batch\":2}");
  CHECK(trace->Text(trace->events[0].text) == "step b=2");
  CHECK(trace->events[1].kind == EventKind::kSegmentAlloc);
  CHECK(trace->events[1].size == 2097152);
  CHECK(trace->events[2].address == 0x7f0000000000u);
  CHECK(trace->OperatorName(trace->events[2].op) == "aten::conv2d");
  CHECK(trace->ModulePath(trace->events[2].module) == "layer1.0.conv1");
  CHECK(trace->events[3].role == TensorRole::kWeight);
  CHECK(trace->Text(trace->events[3].text) == "conv1.weight");
  CHECK(trace->events[4].op == OperatorId::kNone);
}

TEST_CASE("a convolution stands between events, with its workspace and its key") {
  const Result<Trace> trace = ParseTrace(
      "! memmodel-trace 2\no f\nm Conv2d c\n# step b=2\na 7f00 512 0 0 0\n"
      "w 7f00 0 0 fwd f32 2 3 8 8 4 1 1 0 0 1 1 1 1 1 0\nf 7f00 512 0 0 0\nw 0 -1 -1 k\n",
      "t");
  REQUIRE(trace.ok());
  CHECK(trace->events.size() == 3);
  REQUIRE(trace->convolutions.size() == 2);
  const ConvolutionCall& call = trace->convolutions[0];
  CHECK(call.position == 2);
  CHECK(call.workspace == 0x7f00);
  CHECK(call.key == "fwd f32 2 3 8 8 4 1 1 0 0 1 1 1 1 1 0");
  CHECK(trace->OperatorName(call.op) == "f");
  CHECK(trace->ModulePath(call.module) == "c");
  CHECK(trace->convolutions[1].workspace == 0);
  CHECK(trace->convolutions[1].position == 3);
  CHECK_FALSE(ParseTrace("w zz -1 -1 k\n", "t").ok());
  CHECK_FALSE(ParseTrace("w 0 0 -1 k\n", "t").ok());  // no such operator
}

TEST_CASE("a call of an operator says which events before it are its own") {
  const Result<Trace> trace = ParseTrace(
      "! memmodel-trace 2\no aten::sum\n# step b=2\na 7f00 512 0 0 -1\nf 7f00 512 0 0 -1\n"
      "r 2 0 -1 aten::sum Float(4;1;0) none\n",
      "t");
  REQUIRE(trace.ok());
  REQUIRE(trace->operator_calls.size() == 1);
  const OperatorCall& call = trace->operator_calls[0];
  CHECK(call.position == 3);
  CHECK(call.events == 2);
  CHECK(call.key == "aten::sum Float(4;1;0) none");
  CHECK_FALSE(ParseTrace("# x\nr 2 -1 -1 k\n", "t").ok());  // more events than there are
  CHECK_FALSE(ParseTrace("r -1 -1 -1 k\n", "t").ok());
}

TEST_CASE("occasions of the context stand among the events") {
  const Result<Trace> trace = ParseTrace(
      "! memmodel-trace 2\n# load\nd cudnn_handle\nS 7f00 2097152 0\nd first_kernel\n"
      "d cublas_handle\n",
      "t");
  REQUIRE(trace.ok());
  REQUIRE(trace->events.size() == 5);
  CHECK(trace->events[1].kind == EventKind::kContext);
  CHECK(trace->events[1].occasion == ContextOccasion::kCudnnHandle);
  CHECK(trace->events[3].occasion == ContextOccasion::kFirstKernel);
  CHECK(trace->events[4].occasion == ContextOccasion::kCublasHandle);
  for (const char* text : {"d second_kernel\n", "d \n", "d first_kernel 1\n"}) {
    CAPTURE(text);
    CHECK(ParseTrace(text, "t").status().code() == StatusCode::kBadInput);
  }
}

TEST_CASE("a newer format version is refused with both numbers") {
  const Result<Trace> trace = ParseTrace("! memmodel-trace 7\n", "t");
  REQUIRE_FALSE(trace.ok());
  CHECK(trace.status().message() ==
        "t:1: trace format version 7, this program reads versions up to 2");
}

TEST_CASE("damaged lines are named by file and line") {
  for (const char* text : {"", "hello\n", "a zz 1 0\n", "a 10 -5 0\n", "a 10 5\n", "a 10 5 0 3 0\n",
                           "a 10 5 0 1\n", "a 10 99999999999999999999 0\n", "t weightless 10 5 x\n",
                           "! memmodel-trace x\n", "q 1 2 3\n"}) {
    CAPTURE(text);
    const Result<Trace> trace = ParseTrace(text, "bad.trace");
    REQUIRE_FALSE(trace.ok());
    CHECK(trace.status().code() == StatusCode::kBadInput);
    CHECK(trace.status().message().find("bad.trace") == 0);
  }
}

TEST_CASE("missing files and folders are refused") {
  CHECK(ReadTrace("/no/such/file").status().code() == StatusCode::kBadInput);
  CHECK(ReadTrace("/tmp").status().message().find("is a directory") != std::string::npos);
}

}  // namespace memmodel
