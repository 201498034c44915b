// Making a model's tensors on the device.
#ifndef MEMMODEL_SRC_STEP_MATERIALIZE_H_
#define MEMMODEL_SRC_STEP_MATERIALIZE_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace memmodel::step {

// `tensor` on `device` (and in `dtype`, if it is of floating point), allocated as
// tensor.to(device, dtype) would. A tensor without data of its own (an expanded
// one-element tensor of a weight-free file) becomes a dense one of its shape. Only
// small tensors are copied: what large ones hold does not matter, and may not have
// been read. A tensor that is there already comes back as it is.
at::Tensor Materialize(const at::Tensor& tensor, at::Device device,
                       std::optional<at::ScalarType> dtype);

// Bytes that the tensor takes once it is dense.
std::int64_t DenseBytes(const at::Tensor& tensor);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_MATERIALIZE_H_
