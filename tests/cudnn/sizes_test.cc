// The rules behind the stand-ins, where they are given by more than one number.
// Sizes were measured on an NVIDIA H200, cuDNN 9.19, driver 580.159.
#include <doctest/doctest.h>

#include "src/vgpu/cudnn_norm_sizes.h"
#include "src/vgpu/cudnn_rnn_sizes.h"

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
