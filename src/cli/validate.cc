// memmodel validate: predictions against measured runs.
#include "memmodel/validate.h"

#include <memory>

#include "src/cli/interrupts.h"
#include "src/cli/job_flags.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"
#include "src/report/validate.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  std::string runs, models, gpu, gpu_mem;
  bool largest_batches = false, json = false;
  double fail_above = -1;
  std::size_t worst = 10;
};

void Run(const Arguments& arguments, Context& context) {
  const Result<std::vector<MeasuredRun>> runs = ReadRuns(arguments.runs);
  if (!runs.ok()) return context.Fail(runs.status());
  PredictOptions gpu;
  if (Status status = ReadGpuFlags(arguments.gpu, arguments.gpu_mem, &gpu); !status.ok()) {
    return context.Fail(status);
  }
  ValidateOptions options;
  options.models = arguments.models;
  options.device = gpu.device;
  options.total_bytes = gpu.total_bytes;
  options.child = gpu.child;
  options.child.environment = {{"MEMMODEL_VGPU_DEVICE", gpu.device.path},
                               {"MEMMODEL_VGPU_CACHE", CacheFolder()}};
  options.largest_batches = arguments.largest_batches;
  Interrupts interrupts;
  options.child.interrupt_fd = interrupts.fd();
  Result<Validation> validation = Status::Internal("not asked");
  {
    Progress progress;
    options.progress = [&progress](const std::string& text) { progress.Say(text); };
    validation = Validate(*runs, options);
  }
  if (!validation.ok()) return context.Fail(validation.status());
  for (const ErrorRow& row : validation->table) {
    if (arguments.fail_above >= 0 && row.group == "all" && 100 * row.p95 > arguments.fail_above) {
      context.exit_code = 1;
    }
  }
  if (validation->comparisons.empty()) context.exit_code = kExitUnknown;
  context.Print(arguments.json ? ValidationToJson(*runs, *validation)
                               : FormatValidation(*runs, *validation, arguments.worst));
}

}  // namespace

void AddValidate(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand("validate", "predictions against measured runs");
  sub->footer(
      "Example: memmodel validate --runs measured.jsonl --models models/ --gpu h200\n"
      "scripts/measure_run.py measures a training script into that format.\n"
      "Exit codes: 0 done, 1 an error is above --fail-above, 2 wrong usage or unreadable input,\n"
      "3 no run could be predicted.");
  sub->add_option("--runs", arguments->runs, "measured runs, JSONL or CSV (docs/validation.md)")
      ->required()
      ->type_name("FILE");
  sub->add_option("--models", arguments->models, "folder with MODEL.pt2 or MODEL.pt for each run")
      ->required()
      ->type_name("FOLDER");
  sub->add_option("--gpu", arguments->gpu, "the GPU that was measured on")->type_name("NAME");
  sub->add_option("--gpu-mem", arguments->gpu_mem, "its memory, if not the catalogue's")
      ->type_name("SIZE");
  sub->add_flag("--largest-batches", arguments->largest_batches,
                "also search the largest batches that were found by trial; seconds each");
  sub->add_option("--fail-above", arguments->fail_above,
                  "exit 1 if the 95th percentile of any quantity is above this many percent")
      ->type_name("PERCENT");
  sub->add_option("--worst", arguments->worst, "how many of the worst cases to print")
      ->capture_default_str();
  sub->add_flag("--json", arguments->json, "print JSON");
  sub->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace memmodel::cli
