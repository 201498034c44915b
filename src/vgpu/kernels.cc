#include "src/vgpu/kernels.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "src/vgpu/state.h"

namespace memmodel::vgpu {
namespace {

// What start-up code registers. Guarded by State::Lock().
struct Registry {
  std::deque<Module> modules;
  std::unordered_map<const void*, Kernel*> kernels;  // those asked for so far
  std::unordered_map<const void*, std::pair<std::uint64_t, std::uint64_t>> variables;
  std::uint64_t next_variable = 0;
  std::uint64_t variables_end = 0;
};

Registry& TheRegistry() {
  // Never destroyed: libraries unregister while the process ends.
  static auto* registry = new Registry;
  return *registry;
}

constexpr std::uint64_t kVariableAlignment = 256;

}  // namespace

Module* RegisterModule(const void* wrapper) {
  const auto lock = State::Get().Lock();
  Module& module = TheRegistry().modules.emplace_back();
  module.wrapper = wrapper;
  return &module;
}

void RegisterKernel(Module* module, const void* function) {
  // One thread registers a module, before anything can be launched from it.
  module->functions.push_back(function);
}

void RegisterVariable(const void* host, std::uint64_t bytes) {
  const auto lock = State::Get().Lock();
  TheRegistry().variables.emplace(host, std::make_pair(std::uint64_t{0}, bytes));
}

Kernel* FindKernel(const void* function) {
  const auto lock = State::Get().Lock();
  Registry& registry = TheRegistry();
  if (const auto found = registry.kernels.find(function); found != registry.kernels.end()) {
    return found->second;
  }
  // A program registers ten thousands of kernels and launches some hundreds: a
  // search through all, once for each that is launched, is cheaper than an index.
  for (Module& module : registry.modules) {
    const auto& all = module.functions;
    if (std::find(all.begin(), all.end(), function) == all.end()) continue;
    auto* kernel = new Kernel;
    kernel->module = &module;
    kernel->function = function;
    registry.kernels.emplace(function, kernel);
    return kernel;
  }
  return nullptr;
}

std::uint64_t VariableAddress(const void* host) {
  const auto lock = State::Get().Lock();
  Registry& registry = TheRegistry();
  const auto found = registry.variables.find(host);
  if (found == registry.variables.end()) return 0;
  auto& [address, bytes] = found->second;
  if (address == 0) {
    const std::uint64_t size =
        (bytes + kVariableAlignment - 1) / kVariableAlignment * kVariableAlignment;
    if (registry.variables_end - registry.next_variable < size) {
      const std::uint64_t pages = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
      registry.next_variable = State::Get().ReserveForVariables(pages);
      registry.variables_end = registry.next_variable + pages;
    }
    address = registry.next_variable;
    registry.next_variable += size;
  }
  return address;
}

std::optional<CodeImage> ImageOf(const Module& module) {
  const int capability = State::Get().spec().ComputeCapability();
  if (const auto image = PickImage(module.wrapper, capability)) return image;
  for (int other = capability + 1; other < 200; ++other) {
    if (const auto image = PickImage(module.wrapper, other)) {
      static std::atomic<bool> said = false;
      if (!said.exchange(true)) {
        State::Get().Log("no code for sm_" + std::to_string(capability) + "; sm_" +
                         std::to_string(image->architecture) + " stands in");
      }
      return image;
    }
  }
  return std::nullopt;
}

bool CountLaunchOf(Kernel* kernel, int device) {
  State& state = State::Get();
  if (!state.CountKernel(device)) return false;
  if (!kernel->launched.load(std::memory_order_relaxed) && !kernel->launched.exchange(true)) {
    state.CountDistinctKernel();
  }
  const std::uint32_t bit = std::uint32_t{1} << device;
  if ((kernel->module->loaded.load(std::memory_order_relaxed) & bit) != 0) return true;
  if ((kernel->module->loaded.fetch_or(bit) & bit) != 0) return true;
  const auto image = ImageOf(*kernel->module);
  state.CountModule(image ? image->bytes : 0);
  return true;
}

}  // namespace memmodel::vgpu
