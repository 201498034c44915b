// First the GPU's figures, which become the device file. Then each job runs on the virtual
// GPU of that file, at every batch, and the stand-in of cuDNN writes down which convolutions
// it was asked about, while each job runs once on the GPU, so that the context rule is seen
// against a real figure. Last, the convolutions are asked of the real cuDNN by processes side
// by side.
#include "memmodel/calibrate.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "src/calibrate/figures.h"
#include "src/calibrate/plan_file.h"
#include "src/calibrate/side_by_side.h"
#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/core/atomic_file.h"
#include "src/predict/context.h"
#include "src/predict/words.h"

namespace memmodel {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// More than any network asks for at 65536 batches' worth of text.
constexpr std::size_t kLargestKeys = std::size_t{256} << 20;
// Below this many a process, starting one costs more than it saves.
constexpr std::size_t kLeastShare = 64;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Calibrator {
 public:
  explicit Calibrator(const CalibrateOptions& options) : options_(options) {}

  Result<Calibration> Run() {
    for (const std::string& key : options_.plans) {
      if (!IsPlanKey(key)) {
        return Status::InvalidArgument(
            "'" + key +
            "' is no convolution: op type N C H W K R S padH padW strideH "
            "strideW dilationH dilationW groups channels_last (docs/cudnn.md)");
      }
      keys_.insert(key);
    }
    Result<DeviceCatalogue> catalogue = DeviceCatalogue::ReadAll();
    if (!catalogue.ok()) return catalogue.status();
    if (Status s = Figures(*catalogue); !s.ok()) return s;
    Status on_the_gpu;
    std::thread beside([&] { on_the_gpu = OnTheGpu(); });
    const Status traced = Trace();
    beside.join();
    if (!traced.ok()) return traced;
    if (!on_the_gpu.ok()) return on_the_gpu;
    if (Status s = CompareContexts(); !s.ok()) return s;
    if (Status s = Plans(); !s.ok()) return s;
    return std::move(done_);
  }

 private:
  void Say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  Status Figures(const DeviceCatalogue& catalogue) {
    Say("reading the GPU's figures");
    const auto start = Clock::now();
    const std::string request = FormatCalibrationRequest(options_.device, true, {}) + "\n";
    Result<std::string> line = Child::AskOnce(options_.child, request, "reading the GPU's figures");
    if (!line.ok()) return line.status();
    Result<CalibrationAnswer> answer = ParseCalibrationAnswer(*line, 0);
    if (!answer.ok()) return answer.status();
    const std::string device_name = answer->figures.value("device_name", "");
    Result<std::string> text =
        DeviceFileText(answer->figures, catalogue.FindDeviceName(device_name), options_.name);
    if (!text.ok()) return text.status();
    device_text_ = *std::move(text);
    source_ = "asked with a handle on an " + device_name + ", driver " +
              answer->figures.value("driver_version", "not known") + ", by memmodel calibrate";
    Result<Device> device = AddDevice(device_text_, "the GPU's figures");
    if (!device.ok()) return device.status();
    // Plans that were there for the same GPU and cuDNN are kept.
    for (const std::string& folder : {UserDataFolder(), DataFolder().ok() ? *DataFolder() : ""}) {
      Result<PlanFile> plans = ReadPlanFile(folder + "/cudnn/" + device->name + ".plans");
      if (plans.ok() && plans->cudnn_version == answer->cudnn_version &&
          plans->device_name == device->device_name) {
        table_.rows.merge(plans->rows);
      }
    }
    table_.cudnn_version = answer->cudnn_version;
    table_.device_name = device->device_name;
    table_.source = "the first plan of cuDNN's INSTANT heuristic that finalizes, " + source_;
    done_.device = *std::move(device);
    done_.figures_s = SecondsSince(start);
    return {};
  }

  Status Trace() {
    const auto start = Clock::now();
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    if (!folder.ok()) return folder.status();
    for (std::size_t i = 0; i < options_.jobs.size(); ++i) {
      Say("running " + options_.jobs[i].model + " on the virtual GPU");
      if (Status s = TraceJob(options_.jobs[i], folder->path() + "/" + std::to_string(i));
          !s.ok()) {
        return s;
      }
    }
    done_.trace_s = SecondsSince(start);
    return {};
  }

  Status TraceJob(Job job, const std::string& asked) {
    job.device = DeviceKind::kVirtual;
    ChildOptions child = options_.child;
    child.environment.insert(child.environment.end(), {{"MEMMODEL_VGPU_DEVICE", done_.device.path},
                                                       {"MEMMODEL_VGPU_CACHE", options_.cache},
                                                       {"MEMMODEL_VGPU_CUDNN_ASKED", asked}});
    std::vector<std::string> failed;
    Result<std::vector<ProbeAnswer>> answers =
        Probe(job, child, options_.batches, 1, options_.parallel, &failed);
    if (!answers.ok()) return answers.status();
    done_.failed.insert(done_.failed.end(), failed.begin(), failed.end());
    handles_.push_back(CountHandles(answers->front(), nullptr));
    const Result<std::string> text = ReadFile(asked, kLargestKeys);
    if (!text.ok()) return {};  // no convolution
    std::string_view rest = *text;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (IsPlanKey(line)) keys_.emplace(line);
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    return {};
  }

  // The answers of the batches that ran, in any order; why the others did not is added to
  // `failed`. An error if none ran.
  static Result<std::vector<ProbeAnswer>> Probe(const Job& job, const ChildOptions& options,
                                                const std::vector<std::int64_t>& batches, int steps,
                                                int parallel, std::vector<std::string>* failed) {
    Result<std::unique_ptr<Child>> child = Child::Start(options, job);
    if (!child.ok()) return child.status();
    if (Result<LoadedModel> loaded = (*child)->WaitLoaded(); !loaded.ok()) return loaded.status();
    std::vector<ProbeAnswer> answers;
    Status error;
    for (std::size_t next = 0; next < batches.size() || (*child)->unanswered() > 0;) {
      while (next < batches.size() &&
             (*child)->unanswered() < static_cast<std::size_t>(std::max(1, parallel))) {
        ProbeRequest probe;
        probe.batch = batches[next++];
        probe.steps = steps;
        if (Result<int> asked = (*child)->Ask(probe); !asked.ok()) return asked.status();
      }
      Result<ProbeAnswer> answer = (*child)->WaitAnswer();
      if (!answer.ok()) return answer.status();
      if (answer->outcome == Outcome::kOk) {
        answers.push_back(*std::move(answer));
      } else {  // batch norm over one value, for instance
        error = RunError(job.model, *answer);
        failed->push_back(error.message());
      }
    }
    if (answers.empty()) return error;
    return answers;
  }

  Status Plans() {
    if (keys_.empty()) return {};
    const auto start = Clock::now();
    Say("asking cuDNN for " + std::to_string(keys_.size()) + " plans");
    const Questions questions{{keys_.begin(), keys_.end()}, {}};
    const Result<CalibrationAnswer> answer =
        AskSideBySide(options_.child, options_.device, questions, options_.parallel, kLeastShare,
                      "asking cuDNN for plans");
    if (!answer.ok()) return answer.status();
    for (std::size_t i = 0; i < questions.plans.size(); ++i) {
      const auto& [bytes, engine] = answer->plans[i];
      if (bytes < 0) {
        ++done_.without_plan;
        continue;
      }
      ++done_.plans;
      table_.rows.insert_or_assign(questions.plans[i],
                                   std::to_string(bytes) + " " + std::to_string(engine));
    }
    const std::string folder = UserDataFolder() + "/cudnn";
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return Status::Unavailable("cannot make " + folder + ": " + error.message());
    done_.plans_path = folder + "/" + done_.device.name + ".plans";
    done_.plans_in_file = table_.rows.size();
    if (Status s = WritePlanFile(table_, done_.plans_path); !s.ok()) return s;
    done_.plans_s = SecondsSince(start);
    return {};
  }

  // In a thread of its own: touches contexts_ and done_.run_s alone.
  Status OnTheGpu() {
    if (!options_.run || options_.device != DeviceKind::kCuda || options_.jobs.empty()) return {};
    const auto start = Clock::now();
    for (Job job : options_.jobs) {
      job.device = DeviceKind::kCuda;
      Result<std::vector<ProbeAnswer>> answers = Status::Internal("not asked");
      std::vector<std::string> failed;  // is told of the virtual GPU
      for (const std::int64_t batch : options_.batches) {
        answers = Probe(job, options_.child, {batch}, 2, 1, &failed);
        if (answers.ok()) break;
      }
      if (!answers.ok()) return answers.status();
      contexts_.push_back(answers->front().context.measured);
    }
    done_.run_s = SecondsSince(start);
    return {};
  }

  // What the context of a real run is beside the rule: the kernels' code.
  Status CompareContexts() {
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      if (!contexts_[i]) continue;  // NVML does not list the process
      const Bytes above = *contexts_[i] - EstimateContext(done_.device, handles_[i]).value;
      done_.least_above = std::min(done_.least_above.value_or(above), above);
      done_.most_above = std::max(done_.most_above.value_or(above), above);
    }
    if (!done_.least_above) return {};
    Result<std::string> text =
        WithContextRange(device_text_, std::max<Bytes>(0, -*done_.least_above),
                         std::max<Bytes>(0, *done_.most_above),
                         "largest difference between this rule and NVML's figure, " + source_);
    if (!text.ok()) return text.status();
    Result<Device> device = AddDevice(*text, "the GPU's figures");
    if (!device.ok()) return device.status();
    done_.device = *std::move(device);
    return {};
  }

  const CalibrateOptions& options_;
  Calibration done_;
  std::string device_text_, source_;
  PlanFile table_;
  std::set<std::string, std::less<>> keys_;
  std::vector<LibraryHandles> handles_;         // that each job opens
  std::vector<std::optional<Bytes>> contexts_;  // of each job on the GPU
};

}  // namespace

Result<Calibration> Calibrate(const CalibrateOptions& options) {
  if (UserDataFolder().empty()) {
    return Status::Unavailable("no folder for the user's devices: set HOME or MEMMODEL_USER_DATA");
  }
  if (!options.jobs.empty() && options.batches.empty()) {
    return Status::InvalidArgument("which batches? Give --batches, such as 1-64");
  }
  return Calibrator(options).Run();
}

}  // namespace memmodel
