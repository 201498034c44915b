#include "src/step/serve.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/step/answer.h"
#include "src/step/archive.h"
#include "src/step/device.h"
#include "src/step/find_inputs.h"
#include "src/step/job.h"
#include "src/step/materialize.h"
#include "src/step/model.h"
#include "src/step/optimizer.h"
#include "src/step/pickle_walk.h"
#include "src/step/probe.h"
#include "src/step/torch_compat.h"
#include "src/step/training.h"
#include "src/step/worker.h"

namespace memmodel::step {
namespace {

// Probes that run at the same time; what comes beyond waits.
constexpr std::size_t kLargestTeam = 16;

class Server {
 public:
  Server(int in_fd, int out_fd) : in_(in_fd), out_(out_fd) {}

  int Run(const char* job_line) {
    const auto start = std::chrono::steady_clock::now();
    Result<Job> job = ParseJob(job_line);
    if (!job.ok()) return Fail(job.status());
    job_ = std::move(job.value());
    ConfigureTorch();
    const Result<std::unique_ptr<Optimizer>> optimizer = MakeOptimizer(job_.optimizer, {});
    if (!optimizer.ok()) return Fail(optimizer.status());
    const Result<Archive> archive = OpenArchive(job_.model);
    if (!archive.ok()) return Fail(archive.status());
    if (archive->kind == ArchiveKind::kPickle || archive->kind == ArchiveKind::kLegacyPickle) {
      const Result<StateDictAnswer> answer = DescribePickle(job_.model, *archive);
      if (!answer.ok()) return Fail(answer.status());
      Send(FormatStateDict(*answer));
      return 0;
    }
    Result<std::unique_ptr<Model>> model = archive->kind == ArchiveKind::kExportedProgram
                                               ? LoadExportedProgram(job_.model)
                                               : LoadTorchScript(job_.model, *archive);
    if (!model.ok()) return Fail(model.status());
    model_ = std::move(model.value());
    if (!job_.checkpoint.empty()) {
      if (const Status status = model_->Checkpoint(job_.checkpoint); !status.ok()) {
        return Fail(status);
      }
    }
    const FoundInputs found = FindInputs(job_, *model_);
    if (!found.status.ok()) {
      Send(FormatError(found.status, found.op, found.module));
      return ExitCode(found.status);
    }
    PrepareModel(job_, *model_);
    inputs_ = found.inputs;
    plan_ = found.plan;
    Send(FormatLoaded(Describe(found, start)));
    return ServeProbes();
  }

 private:
  struct Running {
    Probe probe;
    std::unique_ptr<Worker> worker;
  };

  LoadedAnswer Describe(const FoundInputs& found, std::chrono::steady_clock::time_point start) {
    LoadedAnswer answer;
    answer.kind = model_->Kind();
    answer.torch_version = TorchVersion();
    answer.cudnn_version = CudnnVersion();
    for (const NamedTensor& p : model_->Parameters()) {
      answer.parameters += p.tensor.numel();
      answer.parameter_bytes += DenseBytes(p.tensor);
    }
    for (const NamedTensor& b : model_->Buffers()) answer.buffer_bytes += DenseBytes(b.tensor);
    for (const InputSpec& input : inputs_) {
      answer.inputs.push_back({input.name, input.shape, DtypeText(input.dtype), found.assumed});
    }
    answer.batch_fixed = model_->FixedBatch();
    answer.loss = plan_.kind;
    answer.assumptions = found.assumptions;
    answer.load_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return answer;
  }

  int Fail(const Status& status) {
    Send(FormatError(status));
    return ExitCode(status);
  }

  void Send(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = write(out_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) _exit(kExitUnknown);  // nobody listens any more
      done += static_cast<std::size_t>(n);
    }
  }

  int ServeProbes() {
    bool more = true;
    while (more || !running_.empty() || !waiting_.empty()) {
      while (!waiting_.empty() && running_.size() < kLargestTeam) {
        StartProbe(waiting_.front());
        waiting_.erase(waiting_.begin());
      }
      std::vector<pollfd> entries;
      for (const Running& r : running_) entries.push_back({r.worker->fd(), POLLIN, 0});
      if (more) entries.push_back({in_, POLLIN, 0});
      if (poll(entries.data(), entries.size(), running_.empty() ? -1 : 100) < 0 && errno != EINTR) {
        return kExitUnknown;
      }
      if (more && entries.back().revents != 0) more = ReadRequests();
      TakeAnswers();
    }
    return 0;
  }

  void TakeAnswers() {
    for (std::size_t i = 0; i < running_.size();) {
      Worker& worker = *running_[i].worker;
      worker.CheckMemory();
      pollfd entry{worker.fd(), POLLIN, 0};
      const bool readable = worker.fd() < 0 || (poll(&entry, 1, 0) > 0 && entry.revents != 0);
      if (!readable || !worker.Take()) {
        ++i;
        continue;
      }
      const std::string death = worker.Death();
      if (death.empty()) {
        Send(worker.text());
      } else {
        ProbeAnswer answer;
        answer.id = running_[i].probe.id;
        answer.error_message = death;
        answer.error_operator = worker.Last().op;
        answer.error_module = worker.Last().module;
        Send(FormatProbe(answer));
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // False at the end of the requests.
  bool ReadRequests() {
    std::array<char, 1 << 14> buffer{};
    const ssize_t n = read(in_, buffer.data(), buffer.size());
    if (n < 0) return errno == EINTR;
    if (n > 0) pending_.append(buffer.data(), static_cast<std::size_t>(n));
    if (n == 0 && !pending_.empty()) pending_.push_back('\n');
    for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const Result<Probe> probe = ParseProbe(line);
      if (probe.ok()) {
        waiting_.push_back(*probe);
      } else {
        Send(FormatError(probe.status()));
      }
    }
    return n > 0;
  }

  void StartProbe(const Probe& probe) {
    const auto fixed = model_->FixedBatch();
    if (fixed && *fixed != probe.batch) {
      ProbeAnswer answer;
      answer.id = probe.id;
      answer.error_message = "the file's graph takes batches of " + std::to_string(*fixed) +
                             " alone; batch " + std::to_string(probe.batch) + " was asked";
      Send(FormatProbe(answer));
      return;
    }
    Job job = job_;
    if (probe.optimizer) job.optimizer = *probe.optimizer;
    running_.push_back({probe, Worker::Start(
                                   [&](tracer::LastStarted* last) {
                                     return FormatProbe(
                                         RunProbe(job, probe, inputs_, plan_, *model_, last));
                                   },
                                   {job.memory_limit_bytes, job.cpu_limit_s})});
  }

  int in_;
  int out_;
  Job job_;
  std::unique_ptr<Model> model_;
  std::vector<InputSpec> inputs_;
  LossPlan plan_;
  std::string pending_;
  std::vector<Probe> waiting_;
  std::vector<Running> running_;
};

}  // namespace

int Serve(const char* job_line, int in_fd, int out_fd) {
  std::signal(SIGPIPE, SIG_IGN);
  return Server(in_fd, out_fd).Run(job_line);
}

}  // namespace memmodel::step

int memmodel_step_serve(const char* job_line, int in_fd, int out_fd) {
  try {
    return memmodel::step::Serve(job_line, in_fd, out_fd);
  } catch (const std::exception& e) {
    const std::string line = memmodel::step::FormatError(memmodel::Status::Internal(e.what()));
    if (write(out_fd, line.data(), line.size()) < 0) return memmodel::kExitUnknown;
    return memmodel::kExitUnknown;
  }
}
