#include "src/tracer/unknown_reads.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string_view>

#include "src/tracer/operator_log.h"
#include "src/vgpu/control.h"

namespace memmodel::tracer {
namespace {

// Operators that read one value back to check it: the only branch that depends on
// it is an exception.
constexpr std::array<std::string_view, 4> kChecks = {"aten::_assert_async", "aten::_assert_scalar",
                                                     "aten::_functional_assert_async",
                                                     "aten::sym_constrain_range_for_size"};

// Operators whose result has as many rows as the kernel counts, at most one for
// each element of the input. They read the count back as one integer.
constexpr std::array<std::string_view, 3> kCounts = {"aten::nonzero", "aten::masked_select",
                                                     "aten::count_nonzero"};

template <std::size_t N>
bool Contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct State {
  std::mutex mutex;
  std::optional<double> count_fraction;
  const char* phase = "forward";
  UnknownReads found;
};

State& TheState() {
  static State state;
  return state;
}

void Count(std::vector<UnknownRead>* list, UnknownRead read) {
  for (UnknownRead& known : *list) {
    if (known.op == read.op && known.module == read.module && known.where == read.where) {
      ++known.count;
      known.bytes = std::max(known.bytes, read.bytes);
      return;
    }
  }
  read.count = 1;
  list->push_back(std::move(read));
}

int OnUnknownRead(void*, std::uint64_t, std::uint64_t size, void* destination) {
  State& state = TheState();
  UnknownRead read;
  read.op = CurrentOperatorName();
  read.module = CurrentModulePath();
  read.bytes = size;
  int answered = 0;
  const std::lock_guard<std::mutex> lock(state.mutex);
  read.where = state.phase;
  const std::int64_t elements = CurrentInputElements();
  if (state.count_fraction && Contains(kCounts, read.op) && elements >= 0 &&
      (size == sizeof(std::int32_t) || size == sizeof(std::int64_t))) {
    const auto count =
        static_cast<std::int64_t>(*state.count_fraction * static_cast<double>(elements));
    std::memcpy(destination, &count, size);  // little-endian
    read.answer = std::to_string(count) + " of at most " + std::to_string(elements);
    answered = 1;
  }
  Count(Contains(kChecks, read.op) ? &state.found.harmless : &state.found.deciding,
        std::move(read));
  return answered;
}

}  // namespace

void WatchUnknownReads(std::optional<double> count_fraction) {
  TheState().count_fraction = count_fraction;
  const auto set = reinterpret_cast<decltype(&memmodel_vgpu_on_unknown_read)>(
      dlsym(RTLD_DEFAULT, "memmodel_vgpu_on_unknown_read"));
  if (set != nullptr) set(OnUnknownRead, nullptr);
}

void SetUnknownReadPhase(const char* phase) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.phase = phase;
}

UnknownReads TakeUnknownReads() {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return std::move(state.found);
}

}  // namespace memmodel::tracer
