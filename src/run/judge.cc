#include "src/run/judge.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>

#include "memmodel/trace.h"

namespace memmodel {
namespace {

// Refusals that the user mends by another installation or another option.
bool IsUsersMistake(const std::string& code) {
  static const std::set<std::string> codes = {"cpu_only_torch", "no_standins", "too_few_gpus",
                                              "standin_failed", "no_real_library",
                                              "unknown_count_torch"};
  return codes.contains(code);
}

// The first that plans for a GPU by its properties alone: 9.8.
constexpr std::int64_t kFirstCudnn = 90800;

std::string VersionText(std::int64_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// "-I" if the command gives Python an option that keeps memmodel's hook out, else "".
std::string OptionThatKeepsOut(const std::vector<std::string>& command) {
  if (!FileName(command.front()).starts_with("python")) return "";
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with("-") || word == "-c" || word == "-m") return "";
    if (!word.starts_with("--") && word.find_first_of("IES") != std::string::npos) return word;
    if (word == "-X" || word == "-W") ++i;
  }
  return "";
}

Status NotEntered(const RunOptions& options, const ScriptRun& run) {
  const std::string command = "'" + options.command.front() + "'";
  if (const std::string option = OptionThatKeepsOut(options.command); !option.empty()) {
    return Status::InvalidArgument(
        "Python was started with " + option +
        ", which ignores PYTHONPATH or leaves out site: memmodel enters the "
        "script that way. Leave the option out");
  }
  if (run.exit_status != 0) {
    return Status::BadInput(command + " failed (exit status " + std::to_string(run.exit_status) +
                            ") before any Python was started");
  }
  return Status::InvalidArgument(command +
                                 " started no Python that reads PYTHONPATH: give the "
                                 "command that trains, such as 'python train.py'");
}

Status NoGpuUsed(const ScriptRun& run) {
  if (run.exit_status != 0) {
    return Status::BadInput(
        "the script failed on its own (exit status " + std::to_string(run.exit_status) + ")" +
        (run.pythons_with_torch > 0 ? " before it used CUDA" : " before it imported torch") +
        (run.last_error.empty() ? "" : ": " + run.last_error));
  }
  if (run.pythons_with_torch == 0) {
    return Status::Unknown("the script ended without importing torch: nothing to measure");
  }
  return Status::Unknown(
      "the script ended without using CUDA: it trained on the CPU, or did not train. Look for a "
      "--device option, or for where it asks torch.cuda.is_available()");
}

Status Failed(const RunOptions& options, const ProcessReport& report) {
  std::string after = " after " + std::to_string(report.steps_done) + " of " +
                      std::to_string(options.steps) + " steps";
  if (!report.answer.error.message.empty()) after += ": " + report.answer.error.message;
  // What the virtual GPU did may be why.
  if (!report.unknown.empty()) {
    const ScriptRead& read = report.unknown.back();
    return Status::Unknown("the script failed" + after +
                           "; before, it read a value that only a real run computes (" +
                           read.where + ")");
  }
  for (const ProbeAnswer::Refused& refused : report.answer.refused) {
    if (refused.function == "cudnnBackendFinalize" &&
        report.cudnn_version.value_or(kFirstCudnn) < kFirstCudnn) {
      return Status::Unknown(
          "the script's cuDNN " + VersionText(*report.cudnn_version) +
          " cannot say what a convolution needs on a GPU that is not there; 9.8 and later can: "
          "install one beside its torch, such as pip install --no-deps "
          "nvidia-cudnn-cu12==9.10.2.21");
    }
    if (refused.function.starts_with("cupti") || refused.function == "cuGetExportTable") continue;
    return Status::Unknown("the script calls " + refused.function +
                           ", which the virtual GPU refuses; it failed" + after);
  }
  return Status::BadInput("the script failed on its own" + after);
}

struct Request {
  EventKind kind;
  Bytes size;
  bool operator==(const Request&) const = default;
};

Result<std::vector<Request>> Requests(const std::string& path) {
  Result<Trace> trace = ReadTrace(path);
  if (!trace.ok()) return trace.status();
  std::vector<Request> requests;
  for (const Event& event : trace->events) {
    if (event.kind == EventKind::kAlloc || event.kind == EventKind::kFree) {
      requests.push_back({event.kind, event.size});
    }
  }
  // Blocks that are released with no request between leave the allocator as it is in
  // whatever order they go (autocast's cache of weights goes in order of host addresses).
  const auto is_free = [](const Request& request) { return request.kind == EventKind::kFree; };
  for (auto first = requests.begin(); first != requests.end();) {
    first = std::find_if(first, requests.end(), is_free);
    const auto last = std::find_if_not(first, requests.end(), is_free);
    std::sort(first, last, [](const Request& a, const Request& b) { return a.size < b.size; });
    first = last;
  }
  return requests;
}

std::string LastReadBefore(const ProcessReport& report, int device, std::int64_t position) {
  const ScriptRead* last = nullptr;
  for (const ScriptRead& read : report.unknown) {
    const auto found = read.position.find(device);
    if (found != read.position.end() && found->second <= position) last = &read;
  }
  return last == nullptr ? "a value that was read before" : last->where;
}

// The place of the first unknown read, at most `end`; 0 if it is not known.
std::int64_t FirstRead(const ProcessReport& report, int device, std::size_t end) {
  auto first = static_cast<std::int64_t>(report.unknown.empty() ? 0 : end);
  for (const ScriptRead& read : report.unknown) {
    const auto found = read.position.find(device);
    first = std::min(first, found == read.position.end() ? 0 : found->second);
  }
  return std::max<std::int64_t>(0, first);
}

}  // namespace

Status Judge(const RunOptions& options, const ScriptRun& run) {
  if (run.interrupted) return Status::Unavailable("interrupted");
  if (run.refusal) {
    return IsUsersMistake(run.refusal->code) ? Status::BadInput(run.refusal->message)
                                             : Status::Unknown(run.refusal->message);
  }
  if (run.timed_out) {
    return Status::Unknown("the script was not done after " +
                           std::to_string(static_cast<int>(options.timeout_s)) + " s (--timeout)");
  }
  if (run.exit_status == 128 + SIGKILL && !run.ended_by_us) {
    return Status::Unknown(
        "the script was killed (signal 9), as the kernel does when this machine's own memory runs "
        "out: fewer loader workers, or a machine with more memory");
  }
  if (run.pythons == 0) return NotEntered(options, run);
  if (run.reports.empty()) return NoGpuUsed(run);
  for (const ProcessReport& report : run.reports) {
    if (report.answer.outcome == Outcome::kOutOfMemory) return {};
  }
  for (const ProcessReport& report : run.reports) {
    if (report.answer.outcome == Outcome::kError) return Failed(options, report);
  }
  if (!run.ended_by_us && run.exit_status != 0) return Failed(options, run.reports.front());
  return {};
}

std::string FirstDifference(const ScriptRun& run, const ScriptRun& other) {
  if (run.reports.size() != other.reports.size()) {
    return "the number of processes that train changed with the values read";
  }
  for (std::size_t i = 0; i < run.reports.size(); ++i) {
    const ProcessReport& report = run.reports[i];
    const std::vector<DeviceTrace>& devices = other.reports[i].devices;
    if (report.devices.size() != devices.size()) return LastReadBefore(report, 0, 1L << 62);
    for (std::size_t j = 0; j < devices.size(); ++j) {
      const auto mine = Requests(report.devices[j].path), theirs = Requests(devices[j].path);
      if (!mine.ok()) return mine.status().message();
      if (!theirs.ok()) return theirs.status().message();
      const auto [first, second] = std::mismatch(
          mine->begin() + FirstRead(report, report.devices[j].device, mine->size()), mine->end(),
          theirs->begin() + FirstRead(other.reports[i], devices[j].device, theirs->size()),
          theirs->end());
      if (first != mine->end() || second != theirs->end()) {
        return LastReadBefore(report, report.devices[j].device, first - mine->begin());
      }
    }
  }
  return "";
}

}  // namespace memmodel
