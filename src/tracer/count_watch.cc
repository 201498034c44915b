// Which operator reads a count back from the device, and how large it can be: what
// Python cannot see, since these operators read inside (--unknown-count). Each finds
// at most as many elements as its input has.
//
// Only started where counts are to be answered: looking at inputs costs every
// operator a little.
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace {

// nonzero is also what boolean masks as indices end in. A boolean tensor has at most two
// unique values, which is another path: its reads stay unknown.
constexpr std::array<std::string_view, 4> kCounts = {"aten::nonzero", "aten::masked_select",
                                                     "aten::_unique2", "aten::unique_consecutive"};

struct Running {
  std::string_view name;
  std::int64_t elements = -1;
};
thread_local std::vector<Running> running;

struct Entered : at::ObserverContext {};

std::int64_t LargestCount(std::string_view name, const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  if (inputs.empty()) return -1;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < std::min<std::size_t>(inputs.size(), 2); ++i) {
    if (!inputs[i].isTensor()) break;
    const at::Tensor& tensor = inputs[i].toTensor();
    if (!tensor.defined()) return -1;
    if (name.ends_with("unique2") || name.ends_with("consecutive")) {
      if (tensor.scalar_type() == at::kBool) return -1;
      if (i == 0) most = tensor.numel();
      break;
    }
    most = std::max(most, tensor.numel());  // masked_select: of tensor and mask, if not broadcast
  }
  // unique_consecutive(dim=...) counts rows; those are at most the elements too, but far fewer.
  if (name.ends_with("consecutive") && inputs.size() > 3 && !inputs[3].isNone()) return -1;
  return most;
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto found = std::find(kCounts.begin(), kCounts.end(), name);
  if (found == kCounts.end()) return nullptr;
  running.push_back({*found, LargestCount(*found, function)});
  return std::make_unique<Entered>();
}

void End(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr && !running.empty()) running.pop_back();
}

}  // namespace

// Starts watching; once a process.
extern "C" __attribute__((visibility("default"))) void memmodel_watch_counts() {
  at::addGlobalCallback(
      at::RecordFunctionCallback(Begin, End).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

// The largest count that the operator which runs on this thread can find, -1 if none
// counts; its name into `name`, cut to `size`.
extern "C" __attribute__((visibility("default"))) std::int64_t memmodel_largest_count(char* name,
                                                                                      int size) {
  if (running.empty() || size <= 0) return -1;
  const std::string_view text = running.back().name;
  const std::size_t length = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(name, text.data(), length);
  name[length] = '\0';
  return running.back().elements;
}
