// The context manager torch.autocast(device, dtype, enabled).
#ifndef MEMMODEL_SRC_STEP_AUTOCAST_H_
#define MEMMODEL_SRC_STEP_AUTOCAST_H_

#include <ATen/autocast_mode.h>

#include <string_view>

namespace memmodel::step {

// From construction to destruction, in one thread. Mirrors torch/amp/autocast_mode.py of
// torch 2.11: __enter__ and __exit__, with the cache of casts on.
class Autocast {
 public:
  // Undefined: the data type stays as it is.
  Autocast(at::DeviceType device, bool enabled, at::ScalarType dtype)
      : device_(device),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enabled);
    if (dtype != at::ScalarType::Undefined) at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  // As a job's --precision says.
  explicit Autocast(std::string_view precision)
      : Autocast(at::kCUDA, precision.starts_with("amp"),
                 precision == "amp-fp16" ? at::kHalf : at::kBFloat16) {}
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, enabled_before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_AUTOCAST_H_
