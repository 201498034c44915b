// Recurrent networks, batch norm and CTC loss through the stand-ins' C
// interface. Sizes were measured on an NVIDIA H200, cuDNN 9.19, driver 580.159.
#include <cudnn.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cudnn/convolution_plan.h"
#include "tests/cudnn/environment.h"

namespace {

using namespace memmodel::cudnn_plans;  // NOLINT(google-build-using-namespace)

#define CUDNN(name) Find<decltype(name)>(#name)

std::string Run(const std::function<std::string()>& body) {
  return InProcess(MEMMODEL_VGPU_DIR, OnDevice(DeviceFile("h200")), body);
}
std::string Text(std::initializer_list<std::size_t> sizes) {
  std::string text;
  for (const std::size_t size : sizes) text += std::to_string(size) + " ";
  return text;
}

cudnnTensorDescriptor_t Tensor(cudnnDataType_t type, std::vector<int> sizes, bool channels_last) {
  const int n = static_cast<int>(sizes.size());
  std::vector<int> strides(sizes.size());
  int next = channels_last ? sizes[1] : 1;
  for (int i = n - 1; i >= (channels_last ? 2 : 0); --i) {
    strides[i] = next;
    next *= sizes[i];
  }
  if (channels_last) {
    strides[1] = 1;
    strides[0] = next;
  }
  cudnnTensorDescriptor_t tensor = nullptr;
  CUDNN(cudnnCreateTensorDescriptor)(&tensor);
  CUDNN(cudnnSetTensorNdDescriptor)(tensor, type, n, sizes.data(), strides.data());
  return tensor;
}

std::string Report() { return Find<const char*()>("memmodel_vgpu_report_json")(); }

std::string BatchNorm(cudnnBatchNormMode_t mode, cudnnDataType_t type,
                      const std::vector<int>& sizes, bool channels_last) {
  return Run([&] {
    auto* x = Tensor(type, sizes, channels_last);
    std::size_t forward = 1;
    std::size_t backward = 1;
    std::size_t reserve = 1;
    CUDNN(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)
    (nullptr, mode, CUDNN_BATCHNORM_OPS_BN, x, nullptr, x, nullptr, nullptr, &forward);
    CUDNN(cudnnGetBatchNormalizationBackwardExWorkspaceSize)
    (nullptr, mode, CUDNN_BATCHNORM_OPS_BN, x, nullptr, x, nullptr, x, nullptr, nullptr, &backward);
    CUDNN(cudnnGetBatchNormalizationTrainingExReserveSpaceSize)
    (nullptr, mode, CUDNN_BATCHNORM_OPS_BN, nullptr, x, &reserve);
    return Text({forward, backward, reserve});
  });
}

struct Rnn {
  cudnnRNNMode_t cell;
  cudnnDataType_t type;
  bool two_directions;
  int input, hidden, layers;
  bool dropout, packed;
  int steps, batch;
  const char* sizes;  // weights, workspace and reserve of training, workspace of inference
};

std::string Sizes(const Rnn& n) {
  cudnnDropoutDescriptor_t dropout = nullptr;
  CUDNN(cudnnCreateDropoutDescriptor)(&dropout);
  CUDNN(cudnnSetDropoutDescriptor)(dropout, nullptr, n.dropout ? 0.3F : 0.0F, nullptr, 0, 1);
  cudnnRNNDescriptor_t rnn = nullptr;
  CUDNN(cudnnCreateRNNDescriptor)(&rnn);
  CUDNN(cudnnSetRNNDescriptor_v8)
  (rnn, CUDNN_RNN_ALGO_STANDARD, n.cell, CUDNN_RNN_DOUBLE_BIAS,
   n.two_directions ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, n.type,
   CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, n.input, n.hidden, n.hidden, n.layers, dropout, 0);
  cudnnRNNDataDescriptor_t data = nullptr;
  CUDNN(cudnnCreateRNNDataDescriptor)(&data);
  const std::vector<int> lengths(n.batch, n.steps);
  CUDNN(cudnnSetRNNDataDescriptor)
  (data, n.type,
   n.packed ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
   n.steps, n.batch, n.input, lengths.data(), nullptr);
  std::size_t weights = 0;
  std::size_t training = 0;
  std::size_t reserve = 0;
  std::size_t inference = 0;
  CUDNN(cudnnGetRNNWeightSpaceSize)(nullptr, rnn, &weights);
  CUDNN(cudnnGetRNNTempSpaceSizes)
  (nullptr, rnn, CUDNN_FWD_MODE_TRAINING, data, &training, &reserve);
  CUDNN(cudnnGetRNNTempSpaceSizes)
  (nullptr, rnn, CUDNN_FWD_MODE_INFERENCE, data, &inference, nullptr);
  return Text({weights, training, reserve, inference});
}

}  // namespace

TEST_CASE("batch norm's workspace, forward and backward, as measured") {
  constexpr auto kPersistent = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_FLOAT, {188, 48, 6, 6}, true) == "55772 37412 0 ");
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_HALF, {65, 432, 2, 7, 1}, true) == "22772 36924 0 ");
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_BFLOAT16, {1, 738, 16, 1}, true) == "7464 7260 0 ");
  // One channel, or one pixel, is channels_last too.
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_FLOAT, {146, 1, 2, 69, 5}, false) == "15260 9476 0 ");
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_BFLOAT16, {2, 56, 1, 1}, false) == "1592 1572 0 ");
  CHECK(BatchNorm(kPersistent, CUDNN_DATA_FLOAT, {241, 9, 2, 8}, false) == "0 0 0 ");
  CHECK(BatchNorm(CUDNN_BATCHNORM_SPATIAL, CUDNN_DATA_HALF, {19, 32, 45, 45}, true) == "0 0 0 ");
}

TEST_CASE("sizes of recurrent networks as measured, and no estimate among them") {
  const std::vector<Rnn> networks = {
      {CUDNN_LSTM, CUDNN_DATA_FLOAT, false, 160, 512, 4, false, false, 92, 53,
       "30736384 121618624 229679360 121618624 "},
      {CUDNN_GRU, CUDNN_DATA_HALF, false, 1024, 1024, 4, true, false, 9, 1,
       "50380800 84037920 501376 84037920 "},
      {CUDNN_RNN_RELU, CUDNN_DATA_FLOAT, false, 64, 512, 3, true, true, 21, 6,
       "5386240 31092992 1306624 31092992 "},
      {CUDNN_LSTM, CUDNN_DATA_FLOAT, false, 72, 256, 4, true, true, 376, 1,
       "7667712 42647808 8891904 42647808 "},
      {CUDNN_RNN_RELU, CUDNN_DATA_FLOAT, true, 32, 128, 4, false, false, 1, 68,
       "1351680 70838048 487680 70133024 "},
      {CUDNN_LSTM, CUDNN_DATA_BFLOAT16, true, 256, 512, 3, true, false, 2, 37,
       "31506432 85729856 2614528 85616192 "},
      {CUDNN_GRU, CUDNN_DATA_HALF, true, 512, 1024, 2, false, true, 497, 35,
       "56672256 447860992 926249216 447860992 "},
  };
  std::string expected;
  for (const Rnn& network : networks) expected += network.sizes;
  CHECK(Run([&] {
          std::string text;
          for (const Rnn& network : networks) text += Sizes(network);
          return text + Report();
        }).starts_with(expected + "{"));
  const auto estimates = [](const Rnn& network) {
    return Run([&] {
             Sizes(network);
             return Report();
           }).find("\"approximate\":[{\"function\":\"cudnnGetRNNTempSpaceSizes\"") !=
           std::string::npos;
  };
  CHECK_FALSE(estimates(networks[0]));
  CHECK_FALSE(estimates(networks[6]));
  // Backward in pieces of a length that is not known; rows that need padding.
  CHECK(
      estimates({CUDNN_RNN_TANH, CUDNN_DATA_FLOAT, false, 1024, 32, 3, false, true, 16, 111, ""}));
  CHECK(estimates({CUDNN_LSTM, CUDNN_DATA_FLOAT, false, 33, 33, 1, false, true, 16, 16, ""}));
}

TEST_CASE("CTC loss's workspaces as measured") {
  // T 423, B 65, 4 classes, at most 59 labels, of which 56 are used.
  CHECK(Run([] {
          cudnnCTCLossDescriptor_t loss = nullptr;
          CUDNN(cudnnCreateCTCLossDescriptor)(&loss);
          CUDNN(cudnnSetCTCLossDescriptor_v9)
          (loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_CTC_SKIP_OOB_GRADIENTS,
           59);
          auto* x = Tensor(CUDNN_DATA_FLOAT, {423, 65, 4}, false);
          std::vector<int> lengths(65, 1);
          lengths[7] = 56;
          std::size_t v8 = 0;
          std::size_t v7 = 0;
          CUDNN(cudnnGetCTCLossWorkspaceSize_v8)
          (nullptr, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, x, x, &v8);
          CUDNN(cudnnGetCTCLossWorkspaceSize)
          (nullptr, x, x, nullptr, lengths.data(), nullptr, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss,
           &v7);
          return Text({v8, v7});
        }) == "26646620 25340380 ");
}
