#include "src/child/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/child/begin_child.h"

extern char** environ;

namespace memmodel {
namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::size_t kKeptErrors = std::size_t{16} << 10;

void Close(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

Bytes MachineMemory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? Bytes{pages} * page : 8 * kGiB;
}

// The environment of the child: ours, with `added` put over it.
std::vector<std::string> Environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& item : added) replaced = replaced || item.first == name;
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

// The last line of text that says something, for the end of a message.
std::string LastLine(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find_last_not_of(" \r\n\t");
    if (end == std::string_view::npos) return "";
    text = text.substr(0, end + 1);
    const std::size_t start = text.rfind('\n');
    const std::string_view line = start == std::string_view::npos ? text : text.substr(start + 1);
    return std::string(line.substr(0, 300));
  }
  return "";
}

void SetLimit(int resource, Bytes bytes) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(bytes);
  if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max = wanted;
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
  }
}

}  // namespace

Result<std::string> FindTracer(const std::string& program) {
  const char* variable = std::getenv("MEMMODEL_TRACE");
  std::vector<std::string> places;
  if (!program.empty()) {
    places.push_back(program);
  } else if (variable != nullptr && *variable != '\0') {
    places.emplace_back(variable);
  } else {
    std::error_code error;
    const std::filesystem::path here =
        std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    places.push_back((here / "memmodel-trace").string());
    places.push_back((here.parent_path() / "libexec/memmodel/memmodel-trace").string());
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return Status::Unavailable("memmodel-trace, the program that runs models, is not at " +
                             places.front() +
                             "; build memmodel with LibTorch, or set MEMMODEL_TRACE to its path");
}

Child::Child(ChildOptions options, std::string model)
    : options_(std::move(options)), model_(std::move(model)) {}

Result<std::unique_ptr<Child>> Child::Start(const ChildOptions& options, const Job& job) {
  Result<std::string> program = FindTracer(options.program);
  if (!program.ok()) return program.status();
  std::unique_ptr<Child> child(new Child(options, job.model));
  if (child->options_.memory_limit <= 0) child->options_.memory_limit = MachineMemory() / 4 * 3;
  if (Status status = child->Spawn(*program); !status.ok()) return status;
  // A child that is gone already says so when its first answer is awaited.
  if (Status status = child->Send(FormatJob(job, child->options_.memory_limit));
      !status.ok() && status.code() != StatusCode::kUnavailable) {
    return status;
  }
  return child;
}

Result<std::string> Child::AskOnce(const ChildOptions& options, const std::string& line,
                                   const std::string& doing) {
  Result<std::string> program = FindTracer(options.program);
  if (!program.ok()) return program.status();
  Child child(options, "");
  if (child.options_.memory_limit <= 0) child.options_.memory_limit = MachineMemory() / 4 * 3;
  if (Status status = child.Spawn(*program); !status.ok()) return status;
  // A child that is gone already says so when its answer is awaited.
  if (Status status = child.Send(line); !status.ok() && status.code() != StatusCode::kUnavailable) {
    return status;
  }
  return child.ReadLine(options.probe_timeout_s, doing);
}

Status Child::Spawn(const std::string& program) {
  std::array<int, 2> input{-1, -1}, output{-1, -1}, errors{-1, -1}, failure{-1, -1};
  // A socket for its input, so that writing to a dead child is an error and not SIGPIPE.
  const bool piped = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) == 0 &&
                     pipe2(output.data(), O_CLOEXEC) == 0 && pipe2(errors.data(), O_CLOEXEC) == 0 &&
                     pipe2(failure.data(), O_CLOEXEC) == 0;
  const std::vector<std::string> environment = Environment(options_.environment);
  std::vector<char*> variables;
  for (const std::string& entry : environment)
    variables.push_back(const_cast<char*>(entry.c_str()));
  variables.push_back(nullptr);
  std::array<char*, 3> arguments = {const_cast<char*>(program.c_str()),
                                    const_cast<char*>("--serve"), nullptr};
  pid_ = piped ? fork() : -1;
  if (pid_ == 0) {  // from here to execve: async-signal-safe calls only
    BeginChild(SIGKILL);
    dup2(input[1], STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    SetLimit(RLIMIT_DATA, options_.memory_limit);
    SetLimit(RLIMIT_FSIZE, options_.file_limit);
    SetLimit(RLIMIT_CORE, 0);
    execve(program.c_str(), arguments.data(), variables.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  Close(&input[1]);
  Close(&output[1]);
  Close(&errors[1]);
  Close(&failure[1]);
  input_ = input[0];
  output_ = output[0];
  errors_ = errors[0];
  int exec_error = 0;
  const bool failed =
      pid_ > 0 && read(failure[0], &exec_error, sizeof exec_error) == sizeof exec_error;
  Close(&failure[0]);
  if (pid_ < 0 || failed) {
    return Status::Unavailable("cannot start " + program + ": " +
                               std::strerror(failed ? exec_error : fork_error));
  }
  setpgid(pid_, pid_);  // as the child does: whoever comes first
  fcntl(output_, F_SETFL, O_NONBLOCK);
  fcntl(errors_, F_SETFL, O_NONBLOCK);
  return {};
}

Child::~Child() {
  Close(&input_);
  Close(&output_);
  Close(&errors_);
  if (pid_ <= 0) return;
  // It has nothing to save: what it writes for good is renamed into place.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status Child::Send(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = send(input_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Died(Doing());
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

bool Child::Drain(int fd, std::string* buffer) {
  std::array<char, 1 << 16> chunk{};
  while (true) {
    const ssize_t n = read(fd, chunk.data(), chunk.size());
    if (n > 0) {
      buffer->append(chunk.data(), static_cast<std::size_t>(n));
      if (buffer->size() > kLongestLine) return true;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    return n < 0 && errno == EAGAIN;
  }
}

Result<std::string> Child::ReadLine(double timeout_s, const std::string& doing) {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(timeout_s));
  while (true) {
    if (const std::size_t end = output_buffer_.find('\n'); end != std::string::npos) {
      std::string line = output_buffer_.substr(0, end);
      output_buffer_.erase(0, end + 1);
      return line;
    }
    if (output_buffer_.size() > kLongestLine) {
      return Status::Unavailable("the child wrote a line of more than 64 MiB while " + doing);
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      return Status::Unavailable("no answer within " +
                                 std::to_string(static_cast<long>(timeout_s + 0.5)) + " s while " +
                                 doing + "; the child was ended (--timeout)");
    }
    std::array<pollfd, 3> fds = {pollfd{output_, POLLIN, 0}, pollfd{errors_, POLLIN, 0},
                                 pollfd{options_.interrupt_fd, POLLIN, 0}};
    const int wait = static_cast<int>(std::min<std::int64_t>(left.count() + 1, 60000));
    if (poll(fds.data(), fds.size(), wait) < 0 && errno != EINTR) {
      return Status::Internal(std::string("poll: ") + std::strerror(errno));
    }
    if (fds[2].revents != 0) return Status::Unavailable("interrupted while " + doing);
    if (fds[1].revents != 0) {
      if (!Drain(errors_, &error_buffer_)) Close(&errors_);
      if (error_buffer_.size() > kKeptErrors) {
        error_buffer_.erase(0, error_buffer_.size() - kKeptErrors);
      }
    }
    if (fds[0].revents != 0 && !Drain(output_, &output_buffer_) &&
        output_buffer_.find('\n') == std::string::npos) {
      return Died(doing);
    }
  }
}

Status Child::Died(const std::string& doing) {
  if (errors_ >= 0) Drain(errors_, &error_buffer_);
  // Its output is closed: it is gone or as good as gone.
  int status = 0;
  pid_t reaped = 0;
  for (int i = 0; i < 100 && pid_ > 0; ++i) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped != 0) break;
    usleep(10000);
  }
  std::string how = "stopped answering";
  if (reaped == pid_ && reaped > 0) {
    kill(-pid_, SIGKILL);
    pid_ = -1;
    if (WIFSIGNALED(status)) {
      how = "died of signal " + std::to_string(WTERMSIG(status)) + " (" +
            strsignal(WTERMSIG(status)) + ")";
      if (WTERMSIG(status) == SIGKILL) how += ", as a machine does that runs out of memory";
    } else {
      how = "ended with code " + std::to_string(WEXITSTATUS(status));
    }
  }
  const std::string last = LastLine(error_buffer_);
  return Status::Unavailable("the child " + how + " while " + doing +
                             (last.empty() ? "" : "; its last words: " + last));
}

std::string Child::Doing() const {
  if (asked_.empty()) return "loading " + model_;
  std::string batches;
  for (const auto& [id, batch] : asked_) {
    batches += (batches.empty() ? "" : " and ") + std::to_string(batch);
  }
  return "running " + model_ + " at batch " + batches;
}

Result<LoadedModel> Child::WaitLoaded() {
  Result<std::string> line = ReadLine(options_.load_timeout_s, Doing());
  if (!line.ok()) return line.status();
  Result<ChildLine> parsed = ParseChildLine(*line);
  if (!parsed.ok()) return parsed.status();
  if (!std::holds_alternative<LoadedModel>(*parsed)) {
    return Status::Unavailable("the child answered a probe before the model was loaded");
  }
  return std::get<LoadedModel>(std::move(parsed).value());
}

Result<int> Child::Ask(ProbeRequest probe) {
  probe.id = next_id_++;
  asked_[probe.id] = probe.batch;
  if (Status status = Send(FormatProbe(probe)); !status.ok()) return status;
  return probe.id;
}

Result<ProbeAnswer> Child::WaitAnswer() {
  Result<std::string> line = ReadLine(options_.probe_timeout_s, Doing());
  if (!line.ok()) return line.status();
  Result<ChildLine> parsed = ParseChildLine(*line);
  if (!parsed.ok()) return parsed.status();
  ProbeAnswer* answer = std::get_if<ProbeAnswer>(&parsed.value());
  const auto asked = answer == nullptr ? asked_.end() : asked_.find(answer->id);
  if (asked == asked_.end()) {
    return Status::Unavailable("the child answered what was not asked");
  }
  answer->batch = asked->second;
  asked_.erase(asked);
  return std::move(*answer);
}

}  // namespace memmodel
