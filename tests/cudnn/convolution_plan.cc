#include "tests/cudnn/convolution_plan.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace memmodel::cudnn_plans {

std::string OpenStandIns(const std::string& folder) {
  std::vector<std::string> libraries;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().filename() != "libmemmodel_vgpu.so") libraries.push_back(file.path());
  }
  if (error) return folder + ": " + error.message();
  std::sort(libraries.begin(), libraries.end());
  libraries.insert(libraries.begin(), folder + "/libmemmodel_vgpu.so");
  for (const std::string& library : libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  }
  return "";
}

std::vector<Plan> ReadPlans(const std::string& path) {
  std::vector<Plan> plans;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t engine = line.rfind(' ');
    if (line.starts_with("#") || engine == std::string::npos || engine == 0) continue;
    const std::size_t bytes = line.rfind(' ', engine - 1);
    if (bytes == std::string::npos) continue;
    plans.push_back({line.substr(0, bytes), std::atoll(line.c_str() + bytes),
                     std::atoll(line.c_str() + engine)});
  }
  return plans;
}

std::string InProcess(const std::string& folder, const Environment& environment,
                      const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::string text = OpenStandIns(folder);
    if (text.empty()) text = body();
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t wrote = write(ends[1], text.data() + done, text.size() - done);
      if (wrote <= 0) _exit(3);
      done += static_cast<std::size_t>(wrote);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    return "died: " + std::to_string(status);
  }
  return text;
}

}  // namespace memmodel::cudnn_plans
