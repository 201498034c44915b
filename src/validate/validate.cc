// Runs of one job differ in the batch alone, so each job's model is loaded once
// and its batches are probed on a card without end.
#include "memmodel/validate.h"

#include <filesystem>
#include <map>

#include "src/child/child.h"
#include "src/child/temporary_folder.h"
#include "src/predict/context.h"
#include "src/predict/prober.h"

namespace memmodel {
namespace {

std::string ModelFile(const std::string& folder, const std::string& model) {
  std::error_code error;
  for (const char* extension : {".pt2", ".pt"}) {
    const std::string path = folder + "/" + model + extension;
    if (std::filesystem::exists(path, error)) return path;
  }
  return {};
}

// Text that is equal for runs that one child can answer.
std::string JobKey(const MeasuredRun& run) {
  std::string key = run.model + "|" + FormatOptimizer(run.job.optimizer) + "|";
  key.append(Name(run.job.precision)).append("|").append(Name(run.job.mode)).append("|");
  key.append(Name(run.job.loss)).append("|");
  key.append(Name(run.job.step_protocol)).append("|").append(run.job.alloc_conf).append("|");
  for (const InputSpec& input : run.job.inputs) key += FormatInputSpec(input) + "|";
  key += std::to_string(run.job.accumulate) + "|" + std::to_string(run.steps) + "|";
  key += run.job.channels_last ? "channels_last|" : "|";
  key += run.job.cudnn_benchmark ? "benchmark|" : "|";
  return key;
}

class Validator {
 public:
  Validator(const std::vector<MeasuredRun>& runs, const ValidateOptions& options)
      : runs_(runs), options_(options) {}

  Result<Validation> Run() {
    std::map<std::string, std::vector<std::size_t>> jobs;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const bool search = runs_[i].smallest_oom.has_value();
      if (!runs_[i].skipped.empty() || (runs_[i].cap && !search) ||
          (search && !options_.largest_batches)) {
        ++validation_.skipped;
      } else if (search) {
        searches_.push_back(i);
      } else {
        jobs[JobKey(runs_[i])].push_back(i);
      }
    }
    for (const auto& [key, indices] : jobs) {
      if (Status status = ProbeJob(indices); !status.ok()) return status;
    }
    for (const std::size_t i : searches_) {
      if (Status status = Search(i); !status.ok()) return status;
    }
    validation_.table = MakeErrorTable(runs_, validation_.comparisons);
    return std::move(validation_);
  }

 private:
  // False, with the run listed as failed, if its model has no file.
  bool OptionsFor(std::size_t i, PredictOptions* predict) {
    predict->job = runs_[i].job;
    predict->job.model = ModelFile(options_.models, runs_[i].model);
    predict->device = options_.device;
    predict->total_bytes =
        options_.total_bytes > 0 ? options_.total_bytes : options_.device.total_bytes;
    predict->steps = runs_[i].steps;
    predict->child = options_.child;
    if (!predict->job.model.empty()) return true;
    validation_.failed.emplace_back(i,
                                    "no " + runs_[i].model + ".pt2 or .pt in " + options_.models);
    return false;
  }

  Status ProbeJob(const std::vector<std::size_t>& indices) {
    PredictOptions predict;
    const MeasuredRun& first = runs_[indices.front()];
    if (!OptionsFor(indices.front(), &predict)) return {};
    if (options_.progress) options_.progress(first.model);
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    if (!folder.ok()) return folder.status();
    const auto fail = [&](const std::string& why) {
      for (const std::size_t i : indices) validation_.failed.emplace_back(i, why);
    };
    Result<std::unique_ptr<Child>> child = Child::Start(predict.child, predict.job);
    if (!child.ok()) return child.status();
    const Result<LoadedModel> loaded = (*child)->WaitLoaded();
    if (!loaded.ok()) {
      fail(loaded.status().message());
      return {};
    }
    Prober prober(predict, folder->path(), child->get());
    std::vector<std::int64_t> batches;
    for (const std::size_t i : indices) batches.push_back(runs_[i].batch);
    if (Status status = prober.Run(CardSize::kUnlimited, batches); !status.ok()) {
      fail(status.message());
      return {};
    }
    for (const std::size_t i : indices) {
      Compare(i, prober.At(CardSize::kUnlimited, runs_[i].batch));
    }
    return {};
  }

  void Compare(std::size_t i, const ProbeRun& probe) {
    const ProbeAnswer& answer = probe.answer;
    if (answer.outcome != Outcome::kOk || !answer.peak_allocated || !answer.peak_reserved) {
      const bool said = !answer.error.message.empty();
      validation_.failed.emplace_back(i, said ? answer.error.message : "out of memory");
      return;
    }
    if (!answer.unknown.empty()) {
      validation_.failed.emplace_back(i, "unknown: " + answer.unknown.front().op);
      return;
    }
    Add(i, Quantity::kAllocated, runs_[i].allocated, *answer.peak_allocated);
    Add(i, Quantity::kReserved, runs_[i].reserved, *answer.peak_reserved);
    if (!runs_[i].device) return;
    const Result<Trace> trace = ReadTrace(probe.trace);
    Add(i, Quantity::kDevice, runs_[i].device,
        *answer.peak_reserved +
            ContextOf(options_.device, answer, trace.ok() ? &*trace : nullptr).value);
  }

  void Add(std::size_t i, Quantity quantity, std::optional<Bytes> measured, Bytes predicted) {
    if (measured && *measured > 0) {
      validation_.comparisons.push_back({i, quantity, *measured, predicted});
    }
  }

  Status Search(std::size_t i) {
    PredictOptions predict;
    if (!OptionsFor(i, &predict)) return {};
    if (options_.progress) options_.progress(runs_[i].model + ", largest batch");
    predict.allocator_limit = runs_[i].cap;
    predict.target = 1;
    Result<Prediction> prediction = Predict(predict);
    if (!prediction.ok()) {
      validation_.failed.emplace_back(i, prediction.status().message());
    } else if (!prediction->largest_batch_before_oom) {
      validation_.failed.emplace_back(i, prediction->reason);
    } else {
      std::int64_t predicted = *prediction->largest_batch_before_oom;
      // Trials end with a gap: any answer inside it is right.
      if (predicted > runs_[i].batch && predicted < *runs_[i].smallest_oom) {
        predicted = runs_[i].batch;
      }
      Add(i, Quantity::kLargestBatch, runs_[i].batch, predicted);
    }
    return {};
  }

  const std::vector<MeasuredRun>& runs_;
  const ValidateOptions& options_;
  std::vector<std::size_t> searches_;
  Validation validation_;
};

}  // namespace

Result<Validation> Validate(const std::vector<MeasuredRun>& runs, const ValidateOptions& options) {
  return Validator(runs, options).Run();
}

}  // namespace memmodel
