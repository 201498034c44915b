#include "src/step/pt2_module_tree.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

namespace memmodel::step {
namespace {

constexpr std::ptrdiff_t kMaxDepth = 256;

struct TreeModule {
  std::string path;
  std::vector<std::unique_ptr<TreeModule>> children;
  std::map<std::string, TreeModule*, std::less<>> by_name;
  std::vector<int> parameters;
  std::vector<int> buffers;

  TreeModule& Child(std::string_view name) {
    const auto it = by_name.find(name);
    if (it != by_name.end()) return *it->second;
    auto child = std::make_unique<TreeModule>();
    child->path = path.empty() ? std::string(name) : path + "." + std::string(name);
    TreeModule& added = *child;
    children.push_back(std::move(child));
    by_name.emplace(name, &added);
    return added;
  }

  void Visit(std::vector<ApplyStep>& steps) const {
    for (const auto& child : children) child->Visit(steps);
    for (const int tensor : parameters) steps.push_back({tensor, path});
    for (const int tensor : buffers) steps.push_back({tensor, path});
    steps.push_back({-1, path});
  }
};

// The module at `path`, made if it is new.
TreeModule& Find(TreeModule& root, std::string_view path) {
  TreeModule* module = &root;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    module = &module->Child(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return *module;
}

}  // namespace

Result<std::vector<ApplyStep>> ApplyOrder(const std::vector<std::string>& modules,
                                          const std::vector<TreeTensor>& tensors) {
  const auto too_deep = [](const std::string& name) {
    return std::count(name.begin(), name.end(), '.') > kMaxDepth;
  };
  TreeModule root;
  for (const std::string& path : modules) {
    if (too_deep(path)) return Status::BadInput("modules are nested too deeply");
    Find(root, path);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    if (too_deep(name)) return Status::BadInput("modules are nested too deeply");
    const std::size_t dot = name.rfind('.');
    TreeModule& owner =
        Find(root,
             dot == std::string::npos ? std::string_view() : std::string_view(name).substr(0, dot));
    (tensors[i].parameter ? owner.parameters : owner.buffers).push_back(static_cast<int>(i));
  }
  std::vector<ApplyStep> steps;
  root.Visit(steps);
  return steps;
}

}  // namespace memmodel::step
