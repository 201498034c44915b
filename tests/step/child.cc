#include "tests/step/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace memmodel::testing {
namespace {

using nlohmann::json;

}  // namespace

std::string TemporaryFile(const std::string& name, const std::string& content) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("memmodel_step_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string EventText(const Event& event) {
  const bool request = event.kind == EventKind::kAlloc;
  if (!request && event.kind != EventKind::kFree) return "";
  return (request ? "a" : "f") + std::to_string((event.size + 511) / 512);
}

Run RunChild(const std::vector<json>& lines, const std::string& device) {
  std::string text;
  for (const json& line : lines) text += line.dump() + "\n";
  const std::string jobs = TemporaryFile("job.jsonl", text);
  setenv("MEMMODEL_VGPU_DEVICE",
         (std::string(MEMMODEL_SOURCE_DIR) + "/data/devices/" + device + ".json").c_str(), 1);
  const std::string command =
      std::string(MEMMODEL_BINARY_DIR) + "/memmodel-trace --job " + jobs + " 2>/dev/null";
  Run run;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::istringstream stream(output);
  for (std::string line; std::getline(stream, line);) {
    run.answers.push_back(json::parse(line, nullptr, false));
  }
  return run;
}

json Job(const std::string& model, const json& members) {
  json job = {{"job", 1},
              {"model", model.find('/') == std::string::npos
                            ? std::string(MEMMODEL_SOURCE_DIR) + "/models/" + model
                            : model}};
  if (members.is_object()) job.update(members);
  return job;
}

json Probe(int id, int batch, const json& members) {
  json probe = {{"probe", id}, {"batch", batch}};
  if (members.is_object()) probe.update(members);
  return probe;
}

}  // namespace memmodel::testing
