#include <doctest/doctest.h>

#include "memmodel/diff.h"

namespace memmodel {
namespace {

TEST_CASE("operators as PyTorch names them fall into the library that runs them") {
  CHECK(GroupOfOperator("aten::cudnn_convolution").library == "cuDNN");
  CHECK(GroupOfOperator("ConvolutionBackward0").family == "convolution");
  CHECK(GroupOfOperator("aten::_conv_depthwise2d").library == "PyTorch");
  CHECK(GroupOfOperator("aten::addmm").library == "cuBLAS");
  CHECK(GroupOfOperator("aten::upsample_bilinear2d").family == "resampling");
  CHECK(GroupOfOperator("aten::_foreach_addcdiv_").family == "optimizer");
  CHECK(GroupOfOperator("aten::_scaled_dot_product_cudnn_attention").library == "cuDNN");
  CHECK(GroupOfOperator("aten::_scaled_dot_product_efficient_attention").library == "PyTorch");
  CHECK(GroupOfOperator("aten::_log_softmax_backward_data").family == "softmax");
  CHECK(GroupOfOperator("").library == "unknown");
}

}  // namespace
}  // namespace memmodel
