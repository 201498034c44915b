// Which operator reads a count back from the device, what it is if the input is known
// (known_values.h), and else how large it can be (--unknown-count): what Python cannot see, since
// these operators read inside. Each finds at most as many elements as its input has.
//
// What a script calls is followed, not what these operators call in turn: those may write in place
// to what they have just made, with no version to tell.
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "src/tracer/known_values.h"

namespace {

using memmodel::tracer::FollowedCall;

// nonzero is also what boolean masks as indices end in. A boolean tensor has at most two
// unique values, which is another path: its reads stay unknown.
constexpr std::array<std::string_view, 4> kCounts = {"aten::nonzero", "aten::masked_select",
                                                     "aten::_unique2", "aten::unique_consecutive"};
// These read what operators that they call find in their input; in those nothing is written to.
constexpr std::array<std::string_view, 3> kReaders = {"aten::repeat_interleave", "aten::bincount",
                                                      "aten::one_hot"};
constexpr std::array<std::string_view, 6> kReadBy = {"aten::min", "aten::max",    "aten::ge",
                                                     "aten::all", "aten::cumsum", "aten::lt"};

template <std::size_t N>
bool Contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Running {
  std::string_view name;
  std::int64_t elements = -1;  // at most
  std::int64_t known = -1;     // the count itself
};
thread_local std::vector<Running> running;
thread_local int depth = 0;    // operators that run on this thread, without kReaders
thread_local int reading = 0;  // these

struct Entered : at::ObserverContext {
  int* running = nullptr;  // the one of these that counts it
  bool counts = false;
  std::optional<FollowedCall> followed;
};

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

// The count that this operator is about to read, -1 if it is not known.
std::int64_t KnownCount(const std::optional<FollowedCall>& call) {
  if (!call) return -1;
  const torch::jit::Stack results = memmodel::tracer::Compute(*call);
  if (results.empty() || !results[0].isTensor() || results[0].toTensor().dim() == 0) return -1;
  return results[0].toTensor().size(0);
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  if (!function.operator_name()) return nullptr;  // a range, of a module
  const std::string_view name = function.name();
  const auto counts = std::find(kCounts.begin(), kCounts.end(), name);
  auto entered = std::make_unique<Entered>();
  entered->running = Contains(kReaders, name) ? &reading : &depth;
  entered->counts = counts != kCounts.end();
  const bool outermost = depth == 0 && (reading == 0 || Contains(kReadBy, name));
  if (outermost || entered->counts) entered->followed = memmodel::tracer::Follow(function);
  if (entered->counts) {
    running.push_back({*counts, LargestCount(*counts, function), KnownCount(entered->followed)});
  }
  if (!outermost) entered->followed.reset();
  ++*entered->running;
  return entered;
}

void End(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto& entered = static_cast<const Entered&>(*context);
  --*entered.running;
  if (entered.counts) running.pop_back();
  if (entered.followed) memmodel::tracer::TellOutputs(*entered.followed, function.outputs());
}

}  // namespace

// Starts watching; once a process.
extern "C" __attribute__((visibility("default"))) void memmodel_watch_counts() {
  at::addGlobalCallback(at::RecordFunctionCallback(Begin, End)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

// The count that the operator which runs on this thread finds, -1 if it is not known.
extern "C" __attribute__((visibility("default"))) std::int64_t memmodel_known_count() {
  return running.empty() ? -1 : running.back().known;
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
