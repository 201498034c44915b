#include "src/tracer/known_values.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_set>

#include "src/vgpu/control.h"

namespace memmodel::tracer {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

// Of the namespace aten. Some return their argument where there is nothing to do: its bytes are
// then told once more. Not what fills a buffer with one value: kernels that torch does not know of
// write into those.
constexpr std::string_view kFollowed =
    "eq ne lt le gt ge isin logical_and logical_or logical_xor logical_not bitwise_and "
    "bitwise_or bitwise_xor bitwise_not __and__ __or__ __xor__ add sub rsub mul neg abs "
    "floor_divide remainder div max min amax amin maximum minimum clamp clamp_min "
    "clamp_max sum prod any all cumsum diff count_nonzero argmax argmin sort argsort "
    "where masked_fill masked_select index index_select gather take_along_dim scatter "
    "scatter_add bincount bucketize searchsorted nonzero _unique2 unique_consecutive "
    "unique_dim cat concat stack hstack vstack repeat repeat_interleave tile flip roll "
    "pad constant_pad_nd clone contiguous reshape flatten to _to_copy arange tril "
    "triu tril_indices triu_indices one_hot ";
static_assert(kFollowed.ends_with(' '));  // as each of the names

bool IsFollowed(std::string_view name) {
  static const std::unordered_set<std::string_view> names = [] {
    std::unordered_set<std::string_view> words;
    for (std::string_view rest = kFollowed; !rest.empty();) {
      const std::size_t end = rest.find(' ');
      words.insert(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    return words;
  }();
  constexpr std::string_view kNamespace = "aten::";
  return name.starts_with(kNamespace) && names.contains(name.substr(kNamespace.size()));
}

// A function of control.h, null where there is no virtual GPU.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Not a wrapper (functorch's, a tensor of a Python class that dispatches, a fake one).
bool IsPlain(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  return tensor.layout() == at::kStrided && tensor.has_storage() &&
         !keys.has(c10::DispatchKey::Python) && !keys.has(c10::DispatchKey::FuncTorchBatched) &&
         !keys.has(c10::DispatchKey::FuncTorchGradWrapper) &&
         !keys.has(c10::DispatchKey::Functionalize) && !tensor.is_conj() && !tensor.is_neg();
}

bool IsWhole(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

// What the operator gets in place of `value`; nothing if that is not known.
std::optional<c10::IValue> OnCpu(const c10::IValue& value) {
  if (value.isDevice()) return c10::IValue(c10::Device(c10::kCPU));
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return value;
    std::optional<at::Tensor> known = KnownValues(value.toTensor());
    if (!known) return std::nullopt;
    return c10::IValue(*std::move(known));
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> all;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      const std::optional<at::Tensor> known = KnownValues(tensor);
      if (!known) return std::nullopt;
      all.push_back(*known);
    }
    return c10::IValue(all);
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> all;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      const std::optional<at::Tensor> known =
          tensor && tensor->defined() ? KnownValues(*tensor) : std::nullopt;
      if (tensor && tensor->defined() && !known) return std::nullopt;
      all.push_back(known);
    }
    return c10::IValue(all);
  }
  return value;
}

// Whether the bytes of an output can be told. A factory would make it on the CPU, in whatever size.
bool IsTellable(const c10::IValue& value) {
  if (!value.isTensor()) return false;
  const at::Tensor& output = value.toTensor();
  return output.defined() && output.is_cuda() && IsPlain(output) && IsWhole(output) &&
         !output.is_inference() && output._version() == 0 && output.numel() > 0 &&
         output.numel() <= kMostElements && output.is_non_overlapping_and_dense();
}

// Whether an argument cannot be known, by a look that costs nothing.
bool IsOutOfQuestion(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda() &&
         (!IsWhole(value.toTensor()) || value.toTensor().numel() > kMostElements);
}

// Below autograd, autocast and whatever Python put in between.
class Below {
 public:
  Below()
      : keys_(
            c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset | c10::python_ks |
            c10::functorch_transforms_ks |
            c10::DispatchKeySet({c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::Functionalize,
                                 c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::PreDispatch,
                                 c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                 c10::DispatchKey::FuncTorchDynamicLayerBackMode})) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard keys_;
  at::DisableRecordFunctionGuard unrecorded_;
};

}  // namespace

std::optional<at::Tensor> KnownValues(const at::Tensor& tensor) {
  static auto* const peek = Find<decltype(memmodel_vgpu_peek)>("memmodel_vgpu_peek");
  if (!tensor.defined() || !IsPlain(tensor) || tensor.numel() > kMostElements) return std::nullopt;
  if (tensor.is_cpu()) return tensor;
  if (peek == nullptr || !tensor.is_cuda() || !IsWhole(tensor) || tensor.is_inference() ||
      tensor._version() != 0) {
    return std::nullopt;
  }
  const Below below;
  const at::TensorOptions options = at::TensorOptions().dtype(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  std::int64_t last = 0;  // of the elements that the view reaches
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  if (last >= kMostElements) return std::nullopt;
  const at::Tensor span = at::empty({last + 1}, options);
  if (peek(reinterpret_cast<std::uint64_t>(tensor.data_ptr()), span.nbytes(), span.data_ptr()) ==
      0) {
    return std::nullopt;
  }
  return span.as_strided(tensor.sizes(), tensor.strides());
}

std::optional<FollowedCall> Follow(const at::RecordFunction& function) {
  if (!IsFollowed(function.name())) return std::nullopt;
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  const std::optional<c10::OperatorName> name = function.operator_name();
  if (!name || std::any_of(inputs.begin(), inputs.end(), IsOutOfQuestion) ||
      c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
    return std::nullopt;
  }
  const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op || op->schema().is_mutable()) return std::nullopt;  // "out"
  torch::jit::Stack arguments;
  for (const c10::IValue& input : inputs) {
    std::optional<c10::IValue> known = OnCpu(input);
    if (!known) return std::nullopt;
    arguments.push_back(*std::move(known));
  }
  return FollowedCall{*op, std::move(arguments)};
}

torch::jit::Stack Compute(const FollowedCall& call) {
  torch::jit::Stack stack = call.arguments;
  try {
    const Below below;
    call.op.callBoxed(stack);
  } catch (const std::exception&) {  // the operator on the GPU will say so
    stack.clear();
  }
  return stack;
}

void TellOutputs(const FollowedCall& call, c10::ArrayRef<c10::IValue> outputs) {
  static auto* const know = Find<decltype(memmodel_vgpu_know)>("memmodel_vgpu_know");
  if (know == nullptr || std::none_of(outputs.begin(), outputs.end(), IsTellable)) return;
  const torch::jit::Stack values = Compute(call);
  for (std::size_t i = 0; i < std::min(values.size(), outputs.size()); ++i) {
    if (!IsTellable(outputs[i]) || !values[i].isTensor()) continue;
    const at::Tensor& output = outputs[i].toTensor();
    const Below below;
    const at::Tensor& found = values[i].toTensor();
    if (found.scalar_type() != output.scalar_type() || found.sizes() != output.sizes()) continue;
    const at::Tensor bytes = at::empty_strided(output.sizes(), output.strides(), found.options());
    bytes.copy_(found);
    know(reinterpret_cast<std::uint64_t>(output.data_ptr()), output.nbytes(), bytes.data_ptr());
  }
}

}  // namespace memmodel::tracer
