#include "src/step/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "src/tracer/operator_log.h"

namespace memmodel::step {
namespace {

void SendAll(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

// Resident bytes of a process; 0 if it is gone.
Bytes ResidentBytes(pid_t pid) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/statm", static_cast<int>(pid));
  std::FILE* file = std::fopen(path.data(), "re");
  if (file == nullptr) return 0;
  long total = 0;
  long resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

std::unique_ptr<Worker> Worker::Start(const std::function<std::string(tracer::LastStarted*)>& work,
                                      const WorkerLimits& limits) {
  std::unique_ptr<Worker> worker(new Worker());
  worker->limits_ = limits;
  void* shared = mmap(nullptr, sizeof(tracer::LastStarted), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::array<int, 2> ends{};
  if (shared == MAP_FAILED || pipe2(ends.data(), O_CLOEXEC) != 0) return worker;
  worker->shared_ = static_cast<tracer::LastStarted*>(shared);
  const pid_t parent = getpid();
  worker->pid_ = fork();
  if (worker->pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    if (limits.cpu_s > 0) {
      const rlimit cpu{static_cast<rlim_t>(limits.cpu_s), static_cast<rlim_t>(limits.cpu_s) + 1};
      setrlimit(RLIMIT_CPU, &cpu);
    }
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    SendAll(ends[1], work(worker->shared_));
    _exit(0);  // no destructors: they would free a whole network piece by piece
  }
  close(ends[1]);
  worker->fd_ = ends[0];
  return worker;
}

Worker::~Worker() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  if (fd_ >= 0) close(fd_);
  if (shared_ != nullptr) munmap(shared_, sizeof(tracer::LastStarted));
}

bool Worker::Take() {
  std::array<char, 1 << 16> buffer{};
  const ssize_t n = pid_ > 0 ? read(fd_, buffer.data(), buffer.size()) : 0;
  if (n < 0 && errno == EINTR) return false;
  if (n > 0) {
    text_.append(buffer.data(), static_cast<std::size_t>(n));
    return false;
  }
  if (pid_ > 0) {
    waitpid(pid_, &status_, 0);
    pid_ = -1;
  } else {
    status_ = -1;  // never started
  }
  return true;
}

void Worker::CheckMemory() {
  if (limits_.memory_bytes <= 0 || pid_ <= 0 || ResidentBytes(pid_) <= limits_.memory_bytes) return;
  over_memory_ = true;
  kill(pid_, SIGKILL);
}

void Worker::Wait() {
  for (;;) {
    pollfd entry{fd_, POLLIN, 0};
    poll(&entry, 1, 20);
    CheckMemory();
    if ((entry.revents != 0 || fd_ < 0) && Take()) return;
  }
}

std::string Worker::Death() const {
  if (over_memory_) {
    return "it used more than " + FormatBytes(limits_.memory_bytes) + " of host memory";
  }
  if (status_ == -1) return "its process could not be started";
  if (WIFSIGNALED(status_)) {
    if (WTERMSIG(status_) == SIGXCPU) {
      return "it used more than " + std::to_string(limits_.cpu_s) + " s of processor time";
    }
    return std::string("its process was ended by a signal: ") + strsignal(WTERMSIG(status_));
  }
  if (text_.empty() || text_.back() != '\n') return "its process ended without an answer";
  return "";
}

tracer::LastStarted Worker::Last() const {
  return shared_ == nullptr ? tracer::LastStarted() : *shared_;
}

}  // namespace memmodel::step
