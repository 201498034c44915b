// memmodel fit: a model of the batch from traces, or a curve from measured points.
#include "memmodel/fit.h"

#include <memory>
#include <utility>

#include "memmodel/memory_model.h"
#include "src/cli/subcommand.h"
#include "src/report/fit.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  std::vector<std::string> traces;
  std::string points, points_file, output, alloc_conf, gpu_mem, used, context;
  double target = 0.8;
  std::int64_t curve_batches = ModelOptions().curve_batches;
  bool json = false;
};

Result<std::optional<GpuBudget>> ReadBudget(const Arguments& arguments) {
  if (arguments.gpu_mem.empty()) return std::optional<GpuBudget>();
  GpuBudget budget;
  budget.target = arguments.target;
  if (!(budget.target > 0 && budget.target <= 1)) {
    return Status::InvalidArgument("--target " + std::to_string(budget.target) +
                                   ": it is a share above 0 and at most 1");
  }
  const Result<Bytes> total = ParseBytes(arguments.gpu_mem);
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

// A saved model, or one made from the traces.
Result<MemoryModel> ModelOf(const Arguments& arguments) {
  if (arguments.traces.size() == 1) {
    Result<MemoryModel> saved = MemoryModel::Read(arguments.traces.front());
    if (saved.ok() || saved.status().message().find("not a memory model") == std::string::npos) {
      return saved;
    }
  }
  ModelOptions options;
  options.alloc_conf = arguments.alloc_conf;
  options.curve_batches = arguments.curve_batches;
  if (!arguments.context.empty()) {
    const Result<Bytes> bytes = ParseBytes(arguments.context);
    if (!bytes.ok()) return Status::InvalidArgument("--context: " + bytes.status().message());
    options.context_bytes = *bytes;
  }
  std::vector<Trace> traces;
  for (const std::string& path : arguments.traces) {
    Result<Trace> trace = ReadTrace(path);
    if (!trace.ok()) return trace.status();
    traces.push_back(*std::move(trace));
  }
  return MemoryModel::Fit(traces, options);
}

void FitTracesOrFail(const Arguments& arguments, const std::optional<GpuBudget>& budget,
                     Context& context) {
  const Result<MemoryModel> model = ModelOf(arguments);
  if (!model.ok()) return context.Fail(model.status());
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
  const int sources =
      !arguments.traces.empty() + !arguments.points.empty() + !arguments.points_file.empty();
  if (sources != 1) {
    return context.Fail(Status::InvalidArgument(
        "fit what? Give trace files, or --points 1:2.1GB,8:3.8GB,32:8.4GB, or --points-csv FILE"));
  }
  if (arguments.traces.empty()) return FitPointsOrFail(arguments, *budget, context);
  FitTracesOrFail(arguments, *budget, context);
}

}  // namespace

void AddFit(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "fit", "a model of the batch from traces, or a curve from measured points alone");
  sub->footer(
      "Examples: memmodel fit --points 1:2.1GB,8:3.8GB,32:8.4GB --gpu-mem 24G\n"
      "          memmodel fit b1.trace b8.trace b32.trace -o resnet50.model\n"
      "          memmodel fit resnet50.model --gpu-mem 24G\n"
      "Exit codes: 0 answered, 1 no batch fits, 2 wrong usage or unreadable input.");
  sub->add_option("TRACE", arguments->traces,
                  "traces of one job, each at one batch ('memmodel trace' writes them), or one "
                  "saved model");
  sub->add_option("--points", arguments->points, "measured points, BATCH:SIZE,...");
  sub->add_option("--points-csv", arguments->points_file,
                  "measured points: a CSV file with columns batch and bytes")
      ->type_name("FILE");
  sub->add_option("-o,--output", arguments->output, "write the model to this file")
      ->type_name("FILE");
  sub->add_option("--gpu-mem", arguments->gpu_mem, "memory of the card: solve the largest batch")
      ->type_name("SIZE");
  sub->add_option("--used", arguments->used, "memory of the card that other processes use")
      ->type_name("SIZE");
  sub->add_option("--target", arguments->target, "share of the card that may be used")
      ->type_name("SHARE")
      ->capture_default_str();
  sub->add_option("--context", arguments->context,
                  "memory of the process beside what PyTorch reserves: driver, kernels (traces "
                  "only)")
      ->type_name("SIZE");
  sub->add_option("--alloc-conf", arguments->alloc_conf,
                  "PYTORCH_CUDA_ALLOC_CONF to simulate (traces only)")
      ->type_name("STRING");
  sub->add_option("--curve-batches", arguments->curve_batches,
                  "simulate and keep all batches up to this one (traces only)")
      ->type_name("N")
      ->capture_default_str();
  sub->add_flag("--json", arguments->json, "print JSON");
  sub->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace memmodel::cli
