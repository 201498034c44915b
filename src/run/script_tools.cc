#include <cstdlib>
#include <filesystem>

#include "src/run/script.h"

namespace memmodel {
namespace {

namespace fs = std::filesystem;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "cuda13" -> "13" for every folder below `parent` that holds stand-ins.
std::vector<std::pair<std::string, std::string>> StandIns(const fs::path& parent) {
  constexpr std::string_view kPrefix = "cuda";
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && fs::exists(entry.path() / "libmemmodel_vgpu.so", error)) {
      found.emplace_back(name.substr(kPrefix.size()), entry.path().string());
    }
  }
  return found;
}

}  // namespace

Result<ScriptTools> FindScriptTools() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  ScriptTools tools;
  for (const fs::path& root : {here / "lib/memmodel", here.parent_path() / "lib/memmodel",
                               here.parent_path() / "lib64/memmodel",
                               here.parent_path() / MEMMODEL_LIBRARY_FOLDER / "memmodel"}) {
    if (tools.inject.empty() && fs::exists(root / "python/sitecustomize.py", error)) {
      tools.inject = fs::canonical(root / "python", error).string();
    }
    if (tools.standins.empty()) tools.standins = StandIns(root / "vgpu");
  }
  if (const std::string given = Variable("MEMMODEL_PYTHON_FOLDER"); !given.empty())
    tools.inject = given;
  if (tools.inject.empty() || tools.standins.empty()) {
    return Status::Unavailable("the virtual GPU's libraries and src/python are not beside " +
                               here.string() +
                               " (lib/memmodel/vgpu, lib/memmodel/python): build memmodel with "
                               "LibTorch, or install it again");
  }
  tools.cudnn = Variable("MEMMODEL_VGPU_CUDNN");
  tools.cublas_lt = Variable("MEMMODEL_VGPU_CUBLASLT");
  tools.cache = Variable("MEMMODEL_VGPU_CACHE");
  return tools;
}

}  // namespace memmodel
