#include "src/step/materialize.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

namespace memmodel::step {
namespace {

constexpr std::int64_t kCopiedBytes = std::int64_t{1} << 20;

}  // namespace

std::int64_t DenseBytes(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

at::Tensor Materialize(const at::Tensor& tensor, at::Device device,
                       std::optional<at::ScalarType> dtype) {
  at::ScalarType type = tensor.scalar_type();
  if (dtype && tensor.is_floating_point()) type = *dtype;
  if (tensor.device() == device && tensor.scalar_type() == type) return tensor;
  const at::TensorOptions options =
      tensor.options().device(device).dtype(type).requires_grad(false);
  const bool dense = tensor.is_non_overlapping_and_dense();
  if (dense && DenseBytes(tensor) <= kCopiedBytes) return tensor.to(options);
  if (dense) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  return at::empty(tensor.sizes(), options);
}

}  // namespace memmodel::step
