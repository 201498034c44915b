#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "memmodel/diff.h"

namespace memmodel {
namespace {

struct Rule {
  std::string_view part;  // of the name in lower case
  OperatorGroup group;
};

// The first rule whose text stands in the name decides, so the special come
// before the general: "_foreach_addcdiv" is the optimizer, not arithmetic.
// Libraries as aten/src/ATen/native/cuda of PyTorch 2.11 uses them.
constexpr std::array<Rule, 62> kRules = {{
    {"_foreach_", {"optimizer", "PyTorch"}},
    {"_fused_adam", {"optimizer", "PyTorch"}},
    {"_fused_sgd", {"optimizer", "PyTorch"}},
    {"_fused_adagrad", {"optimizer", "PyTorch"}},
    {"optimizer", {"optimizer", "PyTorch"}},
    {"_amp_", {"gradient scaler", "PyTorch"}},
    {"scaled_dot_product_cudnn", {"attention", "cuDNN"}},
    {"scaleddotproductcudnn", {"attention", "cuDNN"}},
    {"cudnn_attention", {"attention", "cuDNN"}},
    {"scaled_dot_product", {"attention", "PyTorch"}},
    {"scaleddotproduct", {"attention", "PyTorch"}},
    {"flash_attention", {"attention", "PyTorch"}},
    {"efficient_attention", {"attention", "PyTorch"}},
    {"depthwise", {"convolution", "PyTorch"}},
    {"convolution", {"convolution", "cuDNN"}},
    {"conv1d", {"convolution", "cuDNN"}},
    {"conv2d", {"convolution", "cuDNN"}},
    {"conv3d", {"convolution", "cuDNN"}},
    {"conv_transpose", {"convolution", "cuDNN"}},
    {"cudnn_batch_norm", {"normalization", "cuDNN"}},
    {"cudnnbatchnorm", {"normalization", "cuDNN"}},
    {"batch_norm", {"normalization", "PyTorch"}},
    {"batchnorm", {"normalization", "PyTorch"}},
    {"layer_norm", {"normalization", "PyTorch"}},
    {"layernorm", {"normalization", "PyTorch"}},
    {"group_norm", {"normalization", "PyTorch"}},
    {"groupnorm", {"normalization", "PyTorch"}},
    {"rms_norm", {"normalization", "PyTorch"}},
    {"cudnn_rnn", {"recurrent", "cuDNN"}},
    {"cudnnrnn", {"recurrent", "cuDNN"}},
    {"lstm", {"recurrent", "cuDNN"}},
    {"gru", {"recurrent", "cuDNN"}},
    {"ctc_loss", {"loss", "cuDNN"}},
    {"nll_loss", {"loss", "PyTorch"}},
    {"nllloss", {"loss", "PyTorch"}},
    {"cross_entropy", {"loss", "PyTorch"}},
    {"mse_loss", {"loss", "PyTorch"}},
    {"mseloss", {"loss", "PyTorch"}},
    {"log_softmax", {"softmax", "PyTorch"}},
    {"softmax", {"softmax", "PyTorch"}},
    {"upsample", {"resampling", "PyTorch"}},
    {"addmm", {"matmul", "cuBLAS"}},
    {"matmul", {"matmul", "cuBLAS"}},
    {"linear", {"matmul", "cuBLAS"}},
    {"::mm", {"matmul", "cuBLAS"}},
    {"::bmm", {"matmul", "cuBLAS"}},
    {"baddbmm", {"matmul", "cuBLAS"}},
    {"mmbackward", {"matmul", "cuBLAS"}},
    {"embedding", {"embedding", "CUB"}},
    {"sort", {"sorting and indexing", "CUB"}},
    {"topk", {"sorting and indexing", "CUB"}},
    {"unique", {"sorting and indexing", "CUB"}},
    {"nonzero", {"sorting and indexing", "CUB"}},
    {"index", {"sorting and indexing", "CUB"}},
    {"cumsum", {"sorting and indexing", "CUB"}},
    {"scatter", {"sorting and indexing", "PyTorch"}},
    {"gather", {"sorting and indexing", "PyTorch"}},
    {"dropout", {"dropout", "PyTorch"}},
    {"pool", {"pooling", "PyTorch"}},
    {"fft", {"Fourier transform", "cuFFT"}},
    {"c10d", {"collective", "NCCL"}},
    {"linalg", {"linear algebra", "cuSOLVER"}},
}};

}  // namespace

OperatorGroup GroupOfOperator(std::string_view name) {
  if (name.empty()) return {"unknown", "unknown"};
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Rule& rule : kRules) {
    if (lower.find(rule.part) != std::string::npos) return rule.group;
  }
  return {"elementwise and others", "PyTorch"};
}

}  // namespace memmodel
