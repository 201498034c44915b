// memmodel fit: a model of the batch from a job or its traces, or a curve from
// measured points.
#include "memmodel/fit.h"

#include <memory>
#include <utility>

#include "memmodel/memory_model.h"
#include "src/cli/answer.h"
#include "src/cli/job_flags.h"
#include "src/explain/fit_job.h"
#include "src/report/fit.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  JobFlags job;  // of these alone gpu_mem and alloc_conf matter without a model file
  std::vector<std::string> traces;
  std::string points, points_file, output, used, context;
  double target = 0.8;
  int most_traces = FitJobOptions().traces;
  std::int64_t plan_batches = FitJobOptions().plan_batches;
  std::int64_t curve_batches = ModelOptions().curve_batches;
  bool json = false;
};

Result<std::optional<GpuBudget>> ReadBudget(const Arguments& arguments) {
  const std::string& gpu_mem = arguments.job.gpu_mem;
  if (gpu_mem.empty()) return std::optional<GpuBudget>();
  GpuBudget budget;
  budget.target = arguments.target;
  if (!(budget.target > 0 && budget.target <= 1)) {
    return Status::InvalidArgument("--target " + std::to_string(budget.target) +
                                   ": it is a share above 0 and at most 1");
  }
  const Result<Bytes> total = ParseBytes(gpu_mem);
  if (!total.ok()) return Status::InvalidArgument("--gpu-mem: " + total.status().message());
  budget.total_bytes = *total;
  if (!arguments.used.empty()) {
    const Result<Bytes> used = ParseBytes(arguments.used);
    if (!used.ok()) return Status::InvalidArgument("--used: " + used.status().message());
    budget.used_bytes = *used;
  }
  return std::optional<GpuBudget>(budget);
}

void FitPointsOrFail(const Arguments& arguments, const std::optional<GpuBudget>& budget,
                     Context& context) {
  const auto points = arguments.points.empty() ? ReadPointsCsv(arguments.points_file)
                                               : ParsePoints(arguments.points);
  if (!points.ok()) return context.Fail(points.status());
  const Result<PointsFit> fit = FitPoints(*points);
  if (!fit.ok()) return context.Fail(fit.status());
  context.exit_code = budget && fit->Solve(*budget).batch == 0 ? kExitDoesNotFit : kExitFits;
  context.Print(arguments.json ? PointsFitToJson(*fit, budget) : FormatPointsFit(*fit, budget));
}

Result<ModelOptions> OptionsOf(const Arguments& arguments) {
  ModelOptions options;
  options.alloc_conf = arguments.job.alloc_conf;
  options.curve_batches = arguments.curve_batches;
  if (!arguments.context.empty()) {
    const Result<Bytes> bytes = ParseBytes(arguments.context);
    if (!bytes.ok()) return Status::InvalidArgument("--context: " + bytes.status().message());
    options.context_bytes = *bytes;
  }
  return options;
}

// A saved model, or one made from the traces.
Result<MemoryModel> ModelOfTraces(const Arguments& arguments, const ModelOptions& options) {
  if (arguments.traces.size() == 1) {
    Result<MemoryModel> saved = MemoryModel::Read(arguments.traces.front());
    if (saved.ok() || saved.status().message().find("not a memory model") == std::string::npos) {
      return saved;
    }
  }
  std::vector<Trace> traces;
  for (const std::string& path : arguments.traces) {
    Result<Trace> trace = ReadTrace(path);
    if (!trace.ok()) return trace.status();
    traces.push_back(*std::move(trace));
  }
  return MemoryModel::Fit(traces, options);
}

// Fails, with the message printed, unless there is a saved model, traces to make
// one from, or a job to trace.
std::optional<MemoryModel> ModelOrFail(const Arguments& arguments,
                                       const std::optional<GpuBudget>& budget, Context& context) {
  const auto options = OptionsOf(arguments);
  if (!options.ok()) {
    context.Fail(options.status());
    return std::nullopt;
  }
  if (arguments.job.model.empty()) {
    Result<MemoryModel> model = ModelOfTraces(arguments, *options);
    if (model.ok()) return *std::move(model);
    context.Fail(model.status());
    return std::nullopt;
  }
  Result<PredictOptions> predict = ReadJobFlags(arguments.job);
  if (!predict.ok()) {
    context.Fail(predict.status());
    return std::nullopt;
  }
  FitJobOptions job{*std::move(predict), *options, budget, arguments.most_traces,
                    arguments.plan_batches};
  return RunJob(&job.predict, context, [&] { return FitJob(job); });
}

void FitModelOrFail(const Arguments& arguments, const std::optional<GpuBudget>& budget,
                    Context& context) {
  const std::optional<MemoryModel> model = ModelOrFail(arguments, budget, context);
  if (!model) return;
  if (!arguments.output.empty()) {
    if (Status status = model->Write(arguments.output); !status.ok()) return context.Fail(status);
  }
  if (budget) {
    const Result<BatchLimit> limit = model->Solve(*budget);
    if (!limit.ok()) return context.Fail(limit.status());
    context.exit_code = limit->batch == 0 ? kExitDoesNotFit : kExitFits;
  }
  const Result<std::string> report =
      arguments.json ? ModelFitToJson(*model, budget) : FormatModelFit(*model, budget);
  if (!report.ok()) return context.Fail(report.status());
  context.Print(*report);
}

void Run(const Arguments& arguments, Context& context) {
  const Result<std::optional<GpuBudget>> budget = ReadBudget(arguments);
  if (!budget.ok()) return context.Fail(budget.status());
  const bool points = !arguments.points.empty() || !arguments.points_file.empty();
  const int sources = !arguments.traces.empty() + !arguments.job.model.empty() +
                      !arguments.points.empty() + !arguments.points_file.empty();
  if (sources != 1) {
    return context.Fail(Status::InvalidArgument(
        "fit what? Give --model FILE, or trace files, or --points 1:2.1GB,8:3.8GB,32:8.4GB, or "
        "--points-csv FILE"));
  }
  if (points) return FitPointsOrFail(arguments, *budget, context);
  FitModelOrFail(arguments, *budget, context);
}

}  // namespace

void AddFit(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "fit",
      "a model of the batch from a model file or its traces, or a curve from measured points");
  sub->footer(
      "Examples: memmodel fit --model resnet50.pt --gpu-mem 24G -o resnet50.model\n"
      "          memmodel fit --points 1:2.1GB,8:3.8GB,32:8.4GB --gpu-mem 24G\n"
      "          memmodel fit b1.trace b8.trace b32.trace -o resnet50.model\n"
      "          memmodel fit resnet50.model --gpu-mem 24G\n"
      "Exit codes: 0 answered, 1 no batch fits, 2 wrong usage or unreadable input, 3 unknown.");
  AddJobFlags(sub, &arguments->job);
  sub->get_option("--model")->required(false);
  sub->get_option("--gpu-mem")
      ->description(
          "memory of the card: solve the largest batch too; 24G and 24GiB are 24*2^30 "
          "bytes, 24GB is 24*10^9");
  sub->add_option("TRACE", arguments->traces,
                  "traces of one job, each at one batch ('memmodel trace' writes them), or one "
                  "saved model");
  sub->add_option("--traces", arguments->most_traces,
                  "with --model: how many batches to run at most, 4 to 64")
      ->type_name("N")
      ->capture_default_str();
  sub->add_option(
         "--plan-batches", arguments->plan_batches,
         "with --model: ask for the workspaces of convolutions and reductions at all batches up "
         "to this one")
      ->type_name("N")
      ->capture_default_str();
  sub->add_option("--points", arguments->points, "measured points, BATCH:SIZE,...");
  sub->add_option("--points-csv", arguments->points_file,
                  "measured points: a CSV file with columns batch and bytes")
      ->type_name("FILE");
  sub->add_option("-o,--output", arguments->output, "write the model to this file")
      ->type_name("FILE");
  sub->add_option("--used", arguments->used, "memory of the card that other processes use")
      ->type_name("SIZE");
  sub->add_option("--target", arguments->target, "share of the card that may be used")
      ->type_name("SHARE")
      ->capture_default_str();
  sub->add_option("--context", arguments->context,
                  "memory of the process beside what PyTorch reserves: driver, kernels (default "
                  "with --model: the GPU's)")
      ->type_name("SIZE");
  sub->add_option("--curve-batches", arguments->curve_batches,
                  "simulate and keep all batches up to this one")
      ->type_name("N")
      ->capture_default_str();
  sub->add_flag("--json", arguments->json, "print JSON");
  sub->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace memmodel::cli
