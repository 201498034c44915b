// The rules behind the stand-ins, where they are given by more than one number.
// Sizes were measured on an NVIDIA H200, cuDNN 9.19, driver 580.159.
#include <doctest/doctest.h>

#include "src/vgpu/cudnn_norm_sizes.h"
#include "src/vgpu/cudnn_rnn_sizes.h"
#include "src/vgpu/cudnn_stream_k.h"

using namespace memmodel::vgpu;  // NOLINT(google-build-using-namespace)

TEST_CASE("channels_last, with dimensions of size one") {
  const int last[] = {2 * 3 * 5, 1, 3 * 5, 3};
  const int first[] = {2 * 3 * 5, 2 * 5, 5, 1};
  const int sizes[] = {4, 3, 2, 5};
  CHECK(IsChannelsLast(sizes, last, 4));
  CHECK_FALSE(IsChannelsLast(sizes, first, 4));
  const int pixel[] = {4, 3, 1, 1};
  const int any[] = {3, 1, 1, 1};
  CHECK(IsChannelsLast(pixel, any, 4));
}

TEST_CASE("batch norm in tiles of 4, 16 and 64 channels") {
  CHECK(BatchNormForwardBytes({.rows = 497576, .channels = 1, .element_bytes = 4}) == 71060);
  CHECK(BatchNormBackwardBytes({.rows = 497576, .channels = 1, .element_bytes = 4}) == 42532);
  CHECK(BatchNormForwardBytes({.rows = 229709, .channels = 33, .element_bytes = 4}) == 1422724);
  CHECK(BatchNormBackwardBytes({.rows = 229709, .channels = 33, .element_bytes = 4}) == 919980);
  CHECK(BatchNormForwardBytes({.rows = 243670, .channels = 64, .element_bytes = 4}) == 1966004);
  CHECK(BatchNormForwardBytes({.rows = 34 * 38 * 40, .channels = 841, .element_bytes = 2}) ==
        2260992);
  CHECK(BatchNormBackwardBytes({.rows = 34 * 38 * 40, .channels = 841, .element_bytes = 2}) ==
        3657844);
}

TEST_CASE("what a recurrent network's size says about itself") {
  const RnnShape lstm{.gates = 4,
                      .biases = true,
                      .directions = 1,
                      .element_bytes = 4,
                      .input = 160,
                      .hidden = 512,
                      .projected = 512,
                      .layers = 4,
                      .dropout = false};
  const RnnBatch batch{.steps = 92 * 53, .longest = 92, .sequences = 53, .padded = true};
  CHECK(RnnWorkspace(lstm, batch, true).bytes == 121618624);
  CHECK(RnnWorkspace(lstm, batch, true).exact);
  RnnShape projected = lstm;
  projected.projected = 64;
  CHECK_FALSE(RnnWorkspace(projected, batch, true).exact);
  CHECK_FALSE(RnnReserve(projected, batch).exact);
}

TEST_CASE("partial tiles of convolutions in channels_last, whose workspace is nothing else") {
  // An H200 holds 15 clusters of 8 thread blocks, 132 of one.
  const ConvolutionShape filter = {.op = ConvolutionOp::kBackwardFilter,
                                   .type = ElementType::kBFloat16,
                                   .n = 32,
                                   .c = 128,
                                   .h = 56,
                                   .w = 56,
                                   .k = 256,
                                   .r = 2,
                                   .s = 2,
                                   .p = 28,
                                   .q = 28};
  const EngineChoice small = {
      .engine = 65, .tile_size = 5, .tile_k = 1, .workspace = 0, .cluster_m = 2, .cluster_n = 4};
  CHECK(StreamKBytes(filter, small, 15) == 1048863);
  const ConvolutionShape forward = {.op = ConvolutionOp::kForward,
                                    .type = ElementType::kHalf,
                                    .n = 24,
                                    .c = 1536,
                                    .h = 112,
                                    .w = 112,
                                    .k = 200,
                                    .r = 1,
                                    .s = 1,
                                    .p = 112,
                                    .q = 112};
  const EngineChoice large = {
      .engine = 62, .tile_size = 0, .tile_k = 0, .workspace = 0, .cluster_m = 4, .cluster_n = 2};
  CHECK(StreamKBytes(forward, large, 15) == 7865059);
}

TEST_CASE("partial tiles of 3-D convolutions, as the allocator was asked for them") {
  const auto rounded = [](std::int64_t bytes) { return (bytes + 511) / 512 * 512; };
  // Filter gradient of a 1x3x3 convolution of R(2+1)D-18, float, batch 4; 23842832 bytes are
  // cuDNN's own. Whole K is 12.25 iterations: 13 would be split.
  const ConvolutionShape plane = {.op = ConvolutionOp::kBackwardFilter,
                                  .n = 4,
                                  .c = 512,
                                  .h = 2 * 7,
                                  .w = 7,
                                  .k = 1152,
                                  .r = 3,
                                  .s = 3,
                                  .p = 2 * 7,
                                  .q = 7};
  const EngineChoice pairs = {
      .engine = 68, .tile_size = 0, .tile_k = 0, .workspace = 0, .cluster_m = 1, .cluster_n = 2};
  CHECK(rounded(23842832 + StreamKBytes(plane, pairs, 66).value_or(0)) == 23843328);
  // The last layer of a 3-D U-Net, bfloat16, batch 2: no more than 128 shares of K.
  const ConvolutionShape last = {.op = ConvolutionOp::kBackwardFilter,
                                 .type = ElementType::kBFloat16,
                                 .n = 2,
                                 .c = 24,
                                 .h = 32 * 64,
                                 .w = 64,
                                 .k = 3,
                                 .r = 1,
                                 .s = 1,
                                 .p = 32 * 64,
                                 .q = 64};
  const EngineChoice single = {
      .engine = 65, .tile_size = 7, .tile_k = 1, .workspace = 0, .cluster_m = 1, .cluster_n = 1};
  CHECK(rounded(16777616 + StreamKBytes(last, single, 132).value_or(0)) == 20973056);
}
