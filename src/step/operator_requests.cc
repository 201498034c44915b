#include "src/step/operator_requests.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <charconv>
#include <string_view>

namespace memmodel::step {
namespace {

using Action = c10::CachingDeviceAllocator::TraceEntry::Action;

struct Request {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  bool released = false;
};

// What is asked while it listens. The allocator keeps its tracker to the end of the process.
struct Listener {
  bool listening = false;
  std::vector<Request> requests;

  static Listener& Get() {
    static auto* listener = [] {
      auto* made = new Listener;
      c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
          [made](const c10::CachingDeviceAllocator::TraceEntry& entry) { made->Hear(entry); });
      return made;
    }();
    return *listener;
  }

  void Hear(const c10::CachingDeviceAllocator::TraceEntry& entry) {
    if (!listening) return;
    if (entry.action_ == Action::ALLOC) {
      requests.push_back(
          {static_cast<std::uint64_t>(entry.addr_), static_cast<Bytes>(entry.size_)});
    } else if (entry.action_ == Action::FREE_REQUESTED) {
      for (auto it = requests.rbegin(); it != requests.rend(); ++it) {
        if (it->released || it->address != static_cast<std::uint64_t>(entry.addr_)) continue;
        it->released = true;
        break;
      }
    }
  }
};

std::string_view Take(std::string_view* text, char end) {
  const std::size_t at = std::min(text->find(end), text->size());
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return part;
}

bool Number(std::string_view text, std::int64_t* value) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *value);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

bool Numbers(std::string_view text, std::vector<std::int64_t>* values) {
  while (!text.empty()) {
    std::int64_t value = 0;
    if (!Number(Take(&text, ','), &value)) return false;
    values->push_back(value);
  }
  return true;
}

// "Float(2,3;3,1;0)".
std::optional<at::Tensor> TensorOf(std::string_view text) {
  const std::string type(Take(&text, '('));
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  if (!Numbers(Take(&text, ';'), &sizes) || !Numbers(Take(&text, ';'), &strides) ||
      !Number(Take(&text, ')'), &offset) || sizes.size() != strides.size() || offset < 0) {
    return std::nullopt;
  }
  std::int64_t elements = offset + 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return std::nullopt;
    elements += std::max<std::int64_t>(sizes[i] - 1, 0) * strides[i];
  }
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto scalar = static_cast<at::ScalarType>(i);
    if (type != c10::toString(scalar)) continue;
    return at::empty({elements}, at::TensorOptions().device(at::kCUDA).dtype(scalar))
        .as_strided(sizes, strides, offset);
  }
  return std::nullopt;
}

std::optional<c10::IValue> ArgumentOf(std::string_view text) {
  if (text == "none") return c10::IValue();
  if (text == "true" || text == "false") return c10::IValue(text == "true");
  std::int64_t value = 0;
  if (Number(text, &value)) return c10::IValue(value);
  if (text.starts_with('[') && text.ends_with(']')) {
    std::vector<std::int64_t> values;
    if (!Numbers(text.substr(1, text.size() - 2), &values)) return std::nullopt;
    return c10::IValue(c10::List<std::int64_t>(values));
  }
  const std::optional<at::Tensor> tensor = TensorOf(text);
  return tensor ? std::optional<c10::IValue>(*tensor) : std::nullopt;
}

}  // namespace

std::optional<std::vector<Bytes>> RequestsOf(const std::string& key) {
  std::string_view rest = key;
  const std::string_view whole = Take(&rest, ' ');
  const std::size_t dot = std::min(whole.find('.'), whole.size());
  const std::string overload(whole.substr(std::min(dot + 1, whole.size())));
  Listener& listener = Listener::Get();
  try {
    const auto schema =
        c10::Dispatcher::singleton().findSchema({std::string(whole.substr(0, dot)), overload});
    if (!schema) return std::nullopt;
    torch::jit::Stack stack;
    while (!rest.empty()) {
      std::optional<c10::IValue> argument = ArgumentOf(Take(&rest, ' '));
      if (!argument) return std::nullopt;
      stack.push_back(*std::move(argument));
    }
    if (stack.size() != schema->schema().arguments().size()) return std::nullopt;
    listener.requests.clear();
    listener.listening = true;
    schema->callBoxed(&stack);
    listener.listening = false;
  } catch (const std::exception&) {
    listener.listening = false;
    return std::nullopt;
  }
  std::vector<Bytes> bytes;
  for (const Request& request : listener.requests) {
    if (request.released) bytes.push_back(request.bytes);
  }
  return bytes;
}

}  // namespace memmodel::step
