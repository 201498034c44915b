#include "src/run/script.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/child/begin_child.h"
#include "src/core/atomic_file.h"
#include "src/run/descendants.h"

extern char** environ;

namespace memmodel {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// More than any GPU has, and far from overflow in the allocator's arithmetic.
constexpr Bytes kWithoutEnd = Bytes{1} << 46;
// A process that has done its steps and written its report leaves within 3 s
// (src/python); its launcher may need a little longer to notice.
constexpr double kLeaveSeconds = 5;
constexpr std::size_t kLargestReport = std::size_t{64} << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const char* AnswerName(Answers answers) {
  switch (answers) {
    case Answers::kZero:
      return "zero";
    case Answers::kOne:
      return "one";
    case Answers::kTrue:
      return "true";
  }
  return "zero";
}

std::string JobJson(const ScriptTools& tools, const ScriptOptions& options,
                    const std::string& folder) {
  nlohmann::json standins = nlohmann::json::object();
  for (const auto& [major, path] : tools.standins) standins[major] = path;
  nlohmann::json job = {{"folder", folder},
                        {"steps", options.steps},
                        {"gpus", options.gpus},
                        {"eager", options.eager},
                        {"answer", AnswerName(options.answers)},
                        {"device", Name(options.device)},
                        {"standins", standins},
                        {"cudnn", tools.cudnn},
                        {"cublaslt", tools.cublas_lt},
                        {"triton_cache", options.triton_cache},
                        {"allocator_limit_bytes", options.allocator_limit.value_or(0)}};
  if (options.unknown_count) job["unknown_count"] = *options.unknown_count;
  return job.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> Environment(const ScriptTools& tools, const ScriptOptions& options,
                                     const std::string& folder) {
  const char* path = std::getenv("PYTHONPATH");
  std::vector<std::pair<std::string, std::string>> added = {
      {"PYTHONPATH",
       tools.inject + (path != nullptr && *path != '\0' ? ":" + std::string(path) : "")},
      {"MEMMODEL_RUN_JOB", folder + "/job.json"}};
  if (options.device == DeviceKind::kVirtual) {
    added.insert(added.end(),
                 {{"MEMMODEL_VGPU_DEVICE", options.device_file},
                  {"MEMMODEL_VGPU_COUNT", std::to_string(options.gpus)},
                  {"MEMMODEL_VGPU_TOTAL_BYTES",
                   std::to_string(options.total_bytes > 0 ? options.total_bytes : kWithoutEnd)},
                  {"MEMMODEL_VGPU_CACHE", tools.cache},
                  {"MEMMODEL_VGPU_EXCHANGE", folder + "/exchange"},
                  {"MEMMODEL_VGPU_LOG", folder + "/vgpu.log"}});
  }
  if (!options.alloc_conf.empty()) {
    added.emplace_back("PYTORCH_ALLOC_CONF", options.alloc_conf);
    added.emplace_back("PYTORCH_CUDA_ALLOC_CONF", options.alloc_conf);
  }
  if (options.eager) added.emplace_back("TORCHDYNAMO_DISABLE", "1");
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(added.begin(), added.end(),
                                      [&](const auto& item) { return item.first == name; });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

// Batches of a size that was never tried before may take more memory than this machine has:
// of all processes the kernel is to end the script. Async-signal-safe.
void DieFirst() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t n = write(file, "1000", 4);
  close(file);
}

// Starts the command. Its standard output goes to our standard error, since ours
// carries the answer.
Result<pid_t> Start(const ScriptOptions& options, const std::vector<std::string>& environment) {
  std::vector<char*> arguments, variables;
  for (const std::string& part : options.command)
    arguments.push_back(const_cast<char*>(part.c_str()));
  for (const std::string& part : environment) variables.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) {
    return Status::Unavailable(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  const pid_t pid = fork();
  if (pid == 0) {  // from here to execvpe: async-signal-safe calls only
    BeginChild(SIGTERM);
    DieFirst();
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (isatty(STDIN_FILENO)) dup2(nothing, STDIN_FILENO);  // a background group may not read it
    dup2(options.quiet ? nothing : STDERR_FILENO, STDOUT_FILENO);
    if (options.quiet) dup2(nothing, STDERR_FILENO);
    execvpe(arguments[0], arguments.data(), variables.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  close(failure[1]);
  int error = 0;
  const ssize_t n = read(failure[0], &error, sizeof error);
  close(failure[0]);
  if (pid < 0)
    return Status::Unavailable(std::string("cannot start a process: ") + std::strerror(fork_error));
  if (n == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    return Status::InvalidArgument("cannot start '" + options.command.front() +
                                   "': " + std::strerror(error));
  }
  return pid;
}

// The files of the run's folder whose names start with `prefix`, in order of name.
std::vector<std::string> Files(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && !name.ends_with(".part"))
      found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Follows the processes of a run by the files that they write.
class Follower {
 public:
  Follower(std::string folder, ScriptRun* run) : folder_(std::move(folder)), run_(run) {}

  void ReadNew() {
    for (const std::string& path : Files(folder_, "report.")) {
      if (!Seen(path)) AddReport(path);
    }
    for (const std::string& path : Files(folder_, "refused.")) {
      if (Seen(path) || run_->refusal) continue;
      Result<std::string> text = ReadFile(path, kLargestReport);
      if (!text.ok()) continue;
      if (Result<Refusal> refusal = ParseRefusal(*text); refusal.ok()) run_->refusal = *refusal;
    }
  }

  // Whether every rank has done its steps, or one process that is not one of many.
  [[nodiscard]] bool AllDone() const {
    int done = 0, wanted = 1;
    for (const ProcessReport& report : run_->reports) {
      if (report.ended != "steps") continue;
      ++done;
      wanted = std::max(wanted, report.world_size);
    }
    return done >= wanted;
  }

 private:
  bool Seen(const std::string& path) {
    if (std::find(seen_.begin(), seen_.end(), path) != seen_.end()) return true;
    seen_.push_back(path);
    return false;
  }

  void AddReport(const std::string& path) {
    Result<std::string> text = ReadFile(path, kLargestReport);
    if (!text.ok()) return;
    ++run_->pythons_with_torch;
    Result<ProcessReport> report = ParseProcessReport(*text);
    if (!report.ok()) return;
    if (report->cuda_used) {
      run_->reports.push_back(*std::move(report));
    } else if (!report->answer.error.message.empty()) {
      run_->last_error = report->answer.error.message;
    }
  }

  std::string folder_;
  ScriptRun* run_;
  std::vector<std::string> seen_;
};

int ExitStatus(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Sleeps; true if the wait is to end.
bool Interrupted(int fd, std::chrono::milliseconds pause) {
  if (fd < 0) {
    std::this_thread::sleep_for(pause);
    return false;
  }
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(pause.count())) > 0;
}

void WaitForTheEnd(pid_t pid, const ScriptOptions& options, Clock::time_point start,
                   Follower* follower, ScriptRun* run) {
  std::optional<Clock::time_point> ending;
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    follower->ReadNew();
    const bool done = follower->AllDone() || run->refusal.has_value();
    run->ended_by_us = run->ended_by_us || done;
    if (ended == pid) {
      run->exit_status = ExitStatus(status);
      return;
    }
    if (done && !ending) ending = Clock::now();
    if (ending && SecondsSince(*ending) > kLeaveSeconds) return;
    if (options.timeout_s > 0 && SecondsSince(start) > options.timeout_s && !ending) {
      run->timed_out = true;
      return;
    }
    if (Interrupted(options.interrupt_fd, std::chrono::milliseconds(5))) {
      run->interrupted = true;
      return;
    }
  }
}

}  // namespace

Result<ScriptRun> RunScript(const ScriptTools& tools, const ScriptOptions& options,
                            const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder + "/exchange", error);
  if (error) return Status::Unavailable("cannot make " + folder + ": " + error.message());
  if (Status s = WriteFileAtomically(folder + "/job.json", JobJson(tools, options, folder));
      !s.ok()) {
    return s;
  }
  AdoptDescendants();
  const auto start = Clock::now();
  ScriptRun run;
  Result<pid_t> pid = Start(options, Environment(tools, options, folder));
  if (!pid.ok()) return pid.status();
  Follower follower(folder, &run);
  WaitForTheEnd(*pid, options, start, &follower, &run);
  EndDescendants(run.ended_by_us ? 1 : 3);
  follower.ReadNew();  // what was written while they ended
  run.pythons = static_cast<int>(Files(folder, "python.").size());
  std::stable_sort(run.reports.begin(), run.reports.end(),
                   [](const ProcessReport& a, const ProcessReport& b) { return a.rank < b.rank; });
  run.elapsed_ms = SecondsSince(start) * 1000;
  return run;
}

}  // namespace memmodel
