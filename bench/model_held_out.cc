// How well a model made from four batches answers for twenty others, and how long
// an answer takes.
//
//   model_held_out [--gpu NAME] [--precision NAME] [--channels-last] [--keep FOLDER] [--names]
//                  [--all] MODEL.pt...
//
// Allocated and reserved of the other batches come from runs at those batches, of whose
// requests the simulator makes the truth, at addresses of its own rule; how often the answers
// are also what the run itself counted, at its addresses, is told after. --keep: traces
// are written there, and read from there if they exist. --names: also prints what is not
// exact, and where. --all: judges each request and each layer's workspace by a model of
// all batches.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "memmodel/allocator_replay.h"
#include "memmodel/device.h"
#include "memmodel/memory_model.h"
#include "src/calibrate/ask_workspaces.h"
#include "src/predict/trace_job.h"

namespace memmodel {
namespace {

using Traces = std::map<std::int64_t, Trace>;

constexpr std::int64_t kFit[] = {1, 8, 32, 64};
constexpr std::int64_t kOthers[] = {2,  3,  4,  5,  6,  7,  10, 12, 14, 16,
                                    20, 24, 28, 36, 40, 44, 48, 52, 56, 60};

// Networks that refuse a batch of 1 are fitted from 2.
std::vector<std::int64_t> Batches(std::int64_t least) {
  std::set<std::int64_t> batches(std::begin(kFit), std::end(kFit));
  batches.insert(std::begin(kOthers), std::end(kOthers));
  if (least == 2) batches.erase(1), batches.insert(62);
  return {batches.begin(), batches.end()};
}

struct Options {
  Device device;
  std::string keep;
  std::string precision = "fp32";
  bool names = false, all = false, channels_last = false;
};

ChildOptions ChildOf(const Device& device) {
  ChildOptions child;
  const char* cache = std::getenv("MEMMODEL_VGPU_CACHE");
  child.environment = {{"MEMMODEL_VGPU_DEVICE", device.path},
                       {"MEMMODEL_VGPU_CACHE", cache != nullptr ? cache : ""}};
  return child;
}

Result<Traces> TracesOf(const std::string& model, const Options& options) {
  const std::string stem = options.keep + "/" + std::filesystem::path(model).stem().string();
  const auto file = [&](std::int64_t b) { return stem + "@" + std::to_string(b) + ".trace.gz"; };
  Traces traces;
  if (!options.keep.empty() && std::filesystem::exists(file(kOthers[19]))) {
    for (const std::int64_t b : Batches(std::filesystem::exists(file(1)) ? 1 : 2)) {
      Result<Trace> trace = ReadTrace(file(b));
      if (!trace.ok()) return trace.status();
      traces.emplace(b, *std::move(trace));
    }
    return traces;
  }
  PredictOptions job;
  job.device = options.device;
  job.job.model = model;
  const Result<Precision> precision = ParsePrecision(options.precision);
  if (!precision.ok()) return precision.status();
  job.job.precision = *precision;
  job.job.channels_last = options.channels_last;
  job.child = ChildOf(job.device);
  const Result<std::unique_ptr<JobTracer>> tracer = JobTracer::Start(job);
  if (!tracer.ok()) return tracer.status();
  if (Status s = (*tracer)->Run({1}); !s.ok()) return s;
  const std::vector<std::int64_t> batches = Batches((*tracer)->At(1).ok() ? 1 : 2);
  if (Status s = (*tracer)->Run(batches); !s.ok()) return s;
  for (const std::int64_t b : batches) {
    Result<TracedRun> run = (*tracer)->At(b);
    if (!run.ok()) return run.status();
    if (!options.keep.empty()) {
      if (Status s = WriteTrace(run->trace, file(b), TraceDetail::kFull); !s.ok()) return s;
    }
    traces.emplace(b, std::move(run->trace));
  }
  return traces;
}

template <typename Query>
double Nanoseconds(const Query& query) {
  constexpr int kQueries = 300'000;
  double best = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    Bytes sum = 0;
    for (int i = 0; i < kQueries; ++i) sum += query(1 + i % 256);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (sum > 0) best = std::min(best, spent.count() / kQueries);
  }
  return best;
}

// Errors of one figure over the held-out batches.
struct Errors {
  std::vector<double> errors;
  int equal = 0, inside = 0;
  void Add(Bytes answer, Bytes truth, const ByteRange& range) {
    errors.push_back(std::fabs(static_cast<double>(answer) / static_cast<double>(truth) - 1));
    equal += answer == truth;
    inside += range.low <= truth && truth <= range.high;
  }
  [[nodiscard]] std::string Text() {
    std::sort(errors.begin(), errors.end());
    char text[100];
    std::snprintf(text, sizeof text, "equal %2d of %zu, in range %2d, error %.3f %% to %.2f %%",
                  equal, errors.size(), inside, 100 * errors[errors.size() / 2],
                  100 * errors.back());
    return text;
  }
};

// Mean errors, in bytes, of the layers' workspaces at held-out batches: of the
// fit, of a constant, of a least-squares line.
struct WorkspaceErrors {
  double fit = 0, constant = 0, line = 0;
  std::int64_t count = 0;
  int layers = 0;
};

WorkspaceErrors JudgeWorkspaces(const MemoryModel& model, const MemoryModel& all) {
  WorkspaceErrors sum;
  std::map<std::string, const LayerModel*> truth;
  for (const LayerModel& layer : all.layers()) truth[layer.path] = &layer;
  for (const LayerModel& layer : model.layers()) {
    const auto found = truth.find(layer.path);
    if (layer.workspace.rule == "none" || found == truth.end()) continue;
    ++sum.layers;
    double b = 0, y = 0, bb = 0, by = 0;
    const auto n = static_cast<double>(layer.workspace.traced.size());
    for (const BatchBytes& p : layer.workspace.traced) {
      const auto batch = static_cast<double>(p.batch), bytes = static_cast<double>(p.bytes);
      b += batch, y += bytes, bb += batch * batch, by += batch * bytes;
    }
    const double slope = (n * by - b * y) / (n * bb - b * b);
    for (const BatchBytes& p : found->second->workspace.traced) {
      if (std::find(model.traced_batches().begin(), model.traced_batches().end(), p.batch) !=
          model.traced_batches().end()) {
        continue;
      }
      const auto batch = static_cast<double>(p.batch), bytes = static_cast<double>(p.bytes);
      sum.fit += std::fabs(static_cast<double>(layer.workspace.At(p.batch)) - bytes);
      sum.constant += std::fabs(y / n - bytes);
      sum.line += std::fabs((y - slope * b) / n + slope * batch - bytes);
      ++sum.count;
    }
  }
  return sum;
}

// Whether what the model takes for exact still is with all batches, and its fits of
// workspaces.
Status JudgeParts(const MemoryModel& model, const std::vector<Trace>& every) {
  ModelOptions no_curve;
  no_curve.curve_batches = 0;
  const Result<MemoryModel> all = MemoryModel::Fit(every, no_curve);
  if (!all.ok()) return all.status();
  const MemoryModel::Statistics s = all->statistics();
  const WorkspaceErrors w = JudgeWorkspaces(model, *all);
  const auto mib = [&](double sum) {
    return sum / static_cast<double>(std::max<std::int64_t>(w.count, 1)) / (1 << 20);
  };
  std::printf(
      "  exact with all batches: %" PRId64
      " requests; workspaces of %d layers, mean error: fit %.3f MiB, constant %.3f, line %.3f\n",
      s.requests - s.fitted, w.layers, mib(w.fit), mib(w.constant), mib(w.line));
  return {};
}

void PrintNames(const MemoryModel& model) {
  for (const FittedSizes& f : model.fitted_sizes()) {
    std::printf("    fitted: %s of %s, %s, %" PRId64 " requests, at most %s\n",
                f.operator_name.c_str(), f.module_path.c_str(),
                std::string(PhaseName(f.phase)).c_str(), f.requests,
                FormatBytes(f.largest_bytes).c_str());
  }
  for (const OrderChange& c : model.order_changes()) {
    std::string batches;
    for (const std::int64_t b : c.present) batches.append(" ").append(std::to_string(b));
    std::printf("    at%s only: %s of %s, %s, %" PRId64 " requests, at most %s\n", batches.c_str(),
                c.operator_name.c_str(), c.module_path.c_str(),
                std::string(PhaseName(c.phase)).c_str(), c.requests,
                FormatBytes(c.largest_bytes).c_str());
  }
}

Status Judge(const std::string& model_file, const Options& options) {
  const Result<Traces> traces = TracesOf(model_file, options);
  if (!traces.ok()) return traces.status();
  std::vector<Trace> fit, every;
  std::set<std::int64_t> fitted(std::begin(kFit), std::end(kFit));
  if (!traces->contains(1)) fitted.insert(2);
  for (const auto& [batch, trace] : *traces) {
    every.push_back(trace);
    if (fitted.contains(batch)) fit.push_back(trace);
  }
  const auto asking = std::chrono::steady_clock::now();
  ModelOptions model_options;
  const Result<std::vector<std::string>> keys = MemoryModel::WorkspaceKeys(fit, 64);
  if (!keys.ok()) return keys.status();
  auto workspaces = AskWorkspaces(ChildOf(options.device), DeviceKind::kVirtual, *keys, 2);
  if (!workspaces.ok()) return workspaces.status();
  model_options.workspaces = *std::move(workspaces);
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::duration<double> asked = start - asking;
  const Result<MemoryModel> model = MemoryModel::Fit(fit, model_options);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (!model.ok()) return model.status();
  Errors allocated, reserved;
  int as_run_allocated = 0, as_run_reserved = 0;
  int certain = 0, certain_wrong = 0;  // answers whose range is one figure
  std::string unequal;
  for (const auto& [batch, trace] : *traces) {
    if (fitted.contains(batch)) continue;
    const Result<ReplayResult> replay = Replay(trace, ReplayOptions(), nullptr);
    if (!replay.ok()) return replay.status();
    const Result<BatchMemory> memory = model->At(batch);
    if (!memory.ok()) return memory.status();
    const Bytes truth = replay->statistics.allocated_bytes.all.peak;
    allocated.Add(memory->allocated, truth, memory->allocated_range);
    reserved.Add(memory->reserved, replay->statistics.reserved_bytes.all.peak,
                 memory->reserved_range);
    ReplayOptions recorded;
    recorded.segment_addresses = SegmentAddresses::kRecorded;
    const Result<ReplayResult> run = Replay(trace, recorded, nullptr);
    if (!run.ok()) return run.status();
    as_run_allocated += memory->allocated == run->statistics.allocated_bytes.all.peak;
    as_run_reserved += memory->reserved == run->statistics.reserved_bytes.all.peak;
    const bool is_certain = memory->allocated_range.low == memory->allocated_range.high;
    certain += is_certain;
    certain_wrong += is_certain && memory->allocated != truth;
    if (memory->allocated != truth) {
      unequal.append(" ").append(std::to_string(batch)).append(is_certain ? "!" : "");
    }
  }
  const MemoryModel::Statistics s = model->statistics();
  std::printf("%s\n  allocated: %s; certain %d, of these wrong %d\n  reserved:  %s\n",
              std::filesystem::path(model_file).stem().c_str(), allocated.Text().c_str(), certain,
              certain_wrong, reserved.Text().c_str());
  std::printf("  as the run counted: allocated %d, reserved %d\n", as_run_allocated,
              as_run_reserved);
  if (options.names && !unequal.empty()) std::printf("  unequal at%s\n", unequal.c_str());
  std::printf("  requests: %" PRId64 ", exact %" PRId64 ", at some batches only %" PRId64 "\n",
              s.requests, s.requests - s.fitted, s.sometimes);
  std::printf(
      "  file %zu bytes, %zu plans %.1f s, fit %.1f s, closed form %.0f ns, look-up %.0f ns\n",
      model->Format().size(), keys->size(), asked.count(), spent.count(),
      Nanoseconds([&](std::int64_t b) { return model->RequestedPeak(b); }),
      Nanoseconds([&](std::int64_t b) { return model->At(b)->reserved; }));
  if (options.names) PrintNames(*model);
  if (options.all) {
    if (Status status = JudgeParts(*model, every); !status.ok()) return status;
  }
  std::fflush(stdout);
  return {};
}

int Run(int argc, char** argv) {
  Options options;
  std::string gpu = "h200";
  std::vector<std::string> models;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--gpu" && i + 1 < argc) {
      gpu = argv[++i];
    } else if (argument == "--precision" && i + 1 < argc) {
      options.precision = argv[++i];
    } else if (argument == "--channels-last") {
      options.channels_last = true;
    } else if (argument == "--keep" && i + 1 < argc) {
      options.keep = argv[++i];
    } else if (argument == "--names") {
      options.names = true;
    } else if (argument == "--all") {
      options.all = true;
    } else {
      models.push_back(argument);
    }
  }
  const Result<std::string> data = DataFolder();
  if (!data.ok()) return std::fprintf(stderr, "%s\n", data.status().message().c_str()), 2;
  const Result<DeviceCatalogue> catalogue = DeviceCatalogue::Read(*data + "/devices");
  if (!catalogue.ok()) return std::fprintf(stderr, "%s\n", catalogue.status().message().c_str()), 2;
  const Result<Device> device = catalogue->Find(gpu);
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.status().message().c_str()), 2;
  options.device = *device;
  int failed = 0;
  for (const std::string& model : models) {
    if (const Status status = Judge(model, options); !status.ok()) {
      std::printf("%s: %s\n", model.c_str(), status.message().c_str());
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace memmodel

int main(int argc, char** argv) { return memmodel::Run(argc, argv); }
