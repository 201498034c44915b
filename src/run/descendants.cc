#include "src/run/descendants.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace memmodel {
namespace {

// The parent of a process by /proc/PID/stat, "PID (name) state PPID ..."; the name
// may hold anything. 0 if the process is gone or a zombie.
pid_t ParentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t close = text.rfind(')');
  if (close == std::string::npos || close + 4 >= text.size() || text[close + 2] == 'Z') return 0;
  return static_cast<pid_t>(std::atoi(text.c_str() + close + 4));
}

std::vector<pid_t> Descendants() {
  std::map<pid_t, pid_t> parents;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid > 0) {
      if (const pid_t parent = ParentOf(pid); parent > 0) parents[pid] = parent;
    }
  }
  std::vector<pid_t> found;
  for (const auto& [pid, parent] : parents) {
    pid_t above = parent;
    for (int depth = 0; depth < 1000 && above > 1 && above != getpid(); ++depth) {
      const auto next = parents.find(above);
      above = next == parents.end() ? 0 : next->second;
    }
    if (above == getpid()) found.push_back(pid);
  }
  return found;
}

void Reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

bool AdoptDescendants() { return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

void EndDescendants(double grace_s) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(grace_s);
  for (const pid_t pid : Descendants()) kill(pid, SIGTERM);
  while (true) {
    Reap();
    const std::vector<pid_t> left = Descendants();
    if (left.empty()) return;
    if (Clock::now() >= end) {
      for (const pid_t pid : left) kill(pid, SIGKILL);
    }
    if (Clock::now() >= end + std::chrono::seconds(5)) return;  // in the kernel: not ours to mend
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace memmodel
