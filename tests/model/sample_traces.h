// A network of one convolution and one linear layer, written by hand.
//
// Bytes at batch b: weights 4096 and 2048, gradients of the same size, made in the
// first backward and kept; input 1024 b, output of conv1 2048 b, output of fc 512 b,
// loss 4. conv1 has a workspace of 65536 at batches below 8 and none from 8 on.
#ifndef MEMMODEL_TESTS_MODEL_SAMPLE_TRACES_H_
#define MEMMODEL_TESTS_MODEL_SAMPLE_TRACES_H_

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "memmodel/memory_model.h"
#include "memmodel/trace.h"

namespace memmodel::test {

inline std::string SampleText(std::int64_t b, int steps = 2) {
  const auto n = [](std::int64_t value) { return std::to_string(value); };
  std::string t = "! memmodel-trace 1\n= {\"batch\":" + n(b) + "}\n";
  t += "o aten::cudnn_convolution\no aten::addmm\no ConvolutionBackward0\no AddmmBackward0\n";
  t += "o aten::copy_\nm Net \nm Conv2d conv1\nm Linear fc\n";
  const auto a = [&](const char* address, std::int64_t size, const char* who) {
    t += std::string("a ") + address + " " + n(size) + " 0 " + who + "\n";
  };
  const auto f = [&](const char* address, std::int64_t size, const char* who) {
    for (const char* kind : {"f ", "c "}) {
      t += std::string(kind) + address + " " + n(size) + " 0 " + who + "\n";
    }
  };
  t += "# load\n";
  a("1000", 4096, "4 -1");
  t += "t weight 1000 4096 conv1.weight\n";
  a("2000", 2048, "4 -1");
  t += "t weight 2000 2048 fc.weight\n";
  for (int step = 0; step < steps; ++step) {
    t += "# step b=" + n(b) + "\n";
    a("10", 1024 * b, "4 -1");
    t += "t input 10 " + n(1024 * b) + " input\n";
    a("20", 2048 * b, "0 1");
    if (b < 8) {
      a("30", 65536, "0 1");
      f("30", 65536, "0 1");
    }
    a("40", 512 * b, "1 2");
    a("50", 4, "-1 0");
    t += "# forward done\n";
    if (step == 0) {
      a("60", 2048, "3 2");
      t += "t gradient 60 2048 fc.weight\n";
    }
    a("70", 2048 * b, "3 2");  // gradient of conv1's output
    f("40", 512 * b, "3 2");
    if (step == 0) {
      a("80", 4096, "2 1");
      t += "t gradient 80 4096 conv1.weight\n";
    }
    f("70", 2048 * b, "2 1");
    f("20", 2048 * b, "2 1");
    t += "# backward done\n";
    f("10", 1024 * b, "-1 -1");
    f("50", 4, "-1 -1");
    t += "# step done\n";
  }
  return t + "# end\n";
}

inline Trace Sample(std::int64_t b, int steps = 2) {
  Result<Trace> trace = ParseTrace(SampleText(b, steps), "sample");
  REQUIRE(trace.ok());
  return *std::move(trace);
}

inline std::vector<Trace> Samples(std::initializer_list<std::int64_t> batches) {
  std::vector<Trace> traces;
  for (const std::int64_t b : batches) traces.push_back(Sample(b));
  return traces;
}

// The same, with what conv1 convolves: two frames a sample.
inline std::string SampleKey(std::int64_t b) {
  return "fwd f32 " + std::to_string(2 * b) + " 1 16 16 2 1 1 0 0 1 1 1 1 1 0";
}

inline std::vector<Trace> ConvolutionSamples(std::initializer_list<std::int64_t> batches) {
  std::vector<Trace> traces;
  for (const std::int64_t b : batches) {
    std::string text = SampleText(b);
    const std::string before = "\na 40 ", call = " 0 1 " + SampleKey(b);
    for (std::size_t at = 0; (at = text.find(before, at)) != std::string::npos;) {
      // Between request and release of the workspace, or where there would be one.
      const std::size_t release = b < 8 ? text.rfind("\nf 30 ", at) : at;
      text.insert(release, (b < 8 ? "\nw 30" : "\nw 0") + call);
      at = text.find(before, at) + 1;
    }
    Result<Trace> trace = ParseTrace(text, "sample");
    REQUIRE(trace.ok());
    REQUIRE(trace->convolutions.size() == 2);
    traces.push_back(*std::move(trace));
  }
  return traces;
}

// What cuDNN would answer for the sample's convolution at batches 1..last.
inline WorkspaceAnswers Workspaces(std::int64_t last) {
  WorkspaceAnswers answers;
  for (std::int64_t b = 1; b <= last; ++b) {
    answers.emplace(SampleKey(b), std::vector<Bytes>{b < 8 ? 65536 : 0});
  }
  return answers;
}

// The highest sum of live requests, each rounded up to 512 bytes, by walking `trace`.
inline Bytes WalkedPeak(const Trace& trace) {
  Bytes sum = 0, peak = 0;
  for (const Event& e : trace.events) {
    if (e.kind == EventKind::kAlloc) sum += (e.size + 511) / 512 * 512;
    if (e.kind == EventKind::kFree) sum -= (e.size + 511) / 512 * 512;
    peak = sum > peak ? sum : peak;
  }
  return peak;
}

}  // namespace memmodel::test

#endif  // MEMMODEL_TESTS_MODEL_SAMPLE_TRACES_H_
