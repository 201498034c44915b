#include "src/classify/owner.h"

#include <algorithm>

namespace memmodel {
namespace {

// True if `module` is `owner` without some of its inner names.
bool SkipsContainersOf(std::string_view module, std::string_view owner) {
  const auto name = [](std::string_view path) { return path.substr(path.rfind('.') + 1); };
  if (module.size() >= owner.size() || name(module) != name(owner)) return false;
  while (!module.empty()) {
    const std::string_view part = module.substr(0, module.find('.'));
    while (true) {
      if (owner.empty()) return false;
      const std::size_t end = std::min(owner.find('.'), owner.size());
      const bool same = owner.substr(0, end) == part;
      owner.remove_prefix(std::min(end + 1, owner.size()));
      if (same) break;
    }
    module.remove_prefix(std::min(part.size() + 1, module.size()));
  }
  return owner.empty();
}

}  // namespace

std::string OwnerOf(const std::vector<ModuleInfo>& modules, std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  const std::string_view path = parameter.substr(0, dot == std::string_view::npos ? 0 : dot);
  std::string_view called;
  for (const ModuleInfo& module : modules) {
    if (module.path == path) return module.path;
    if (SkipsContainersOf(module.path, path) && module.path.size() > called.size()) {
      called = module.path;
    }
  }
  return std::string(called.empty() ? path : called);
}

}  // namespace memmodel
