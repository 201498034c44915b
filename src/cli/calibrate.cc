// memmodel calibrate: asks the machine's GPU what predictions about it need.
#include "memmodel/calibrate.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "src/cli/interrupts.h"
#include "src/cli/job_flags.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"
#include "src/core/atomic_file.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  std::vector<std::string> models, inputs, precisions = {"fp32"};
  std::string batches = "1-64", mode = "train", plans, name;
  bool channels_last = false, no_run = false;
  int jobs = 0;
};

// The lines of a file that are neither empty nor comments; of a table, whose lines end in
// bytes and engine, the keys.
Result<std::vector<std::string>> ReadPlans(const std::string& path) {
  Result<std::string> text = ReadFile(path, std::size_t{64} << 20);
  if (!text.ok()) return text.status();
  std::vector<std::string> plans;
  for (std::size_t start = 0; start < text->size();) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    std::string line = text->substr(start, end - start);
    constexpr std::ptrdiff_t kBlanksOfARow = 18;
    if (std::count(line.begin(), line.end(), ' ') == kBlanksOfARow) {
      line.resize(line.rfind(' ', line.rfind(' ') - 1));
    }
    if (!line.empty() && line[0] != '#') plans.push_back(std::move(line));
    start = end + 1;
  }
  return plans;
}

Result<CalibrateOptions> Read(const Arguments& arguments) {
  CalibrateOptions options;
  Result<std::vector<std::int64_t>> batches = ParseBatches(arguments.batches);
  if (!batches.ok()) return batches.status();
  options.batches = *std::move(batches);
  Job job;
  job.channels_last = arguments.channels_last;
  Result<Mode> mode = ParseMode(arguments.mode);
  if (!mode.ok()) return mode.status();
  job.mode = *mode;
  for (const std::string& text : arguments.inputs) {
    Result<InputSpec> input = ParseInputSpec(text);
    if (!input.ok()) return input.status();
    job.inputs.push_back(*std::move(input));
  }
  for (const std::string& model : arguments.models) {
    for (const std::string& name : arguments.precisions) {
      Result<Precision> precision = ParsePrecision(name);
      if (!precision.ok()) return precision.status();
      job.model = model;
      job.precision = *precision;
      options.jobs.push_back(job);
    }
  }
  if (!arguments.plans.empty()) {
    Result<std::vector<std::string>> plans = ReadPlans(arguments.plans);
    if (!plans.ok()) return plans.status();
    options.plans = *std::move(plans);
  }
  options.name = arguments.name;
  options.run = !arguments.no_run;
  // A context takes most of a GiB of the card, and a process of host memory.
  constexpr unsigned kMostProcesses = 12;
  options.parallel =
      arguments.jobs > 0
          ? arguments.jobs
          : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostProcesses));
  options.cache = CacheFolder();
  return options;
}

void Run(const Arguments& arguments, Context& context) {
  Result<CalibrateOptions> options = Read(arguments);
  if (!options.ok()) return context.Fail(options.status());
  Interrupts interrupts;
  options->child.interrupt_fd = interrupts.fd();
  Result<Calibration> calibration = Status::Internal("not asked");
  {
    Progress progress;
    options->progress = [&progress](const std::string& text) { progress.Say(text); };
    calibration = Calibrate(*options);
  }
  if (!calibration.ok()) {
    context.Fail(calibration.status());
    if (const int signal = interrupts.Caught(); signal != 0) context.exit_code = 128 + signal;
    return;
  }
  context.Print(FormatCalibration(*calibration));
}

}  // namespace

void AddCalibrate(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "calibrate", "on a machine with the GPU: its figures and cuDNN's plans, for predictions");
  sub->footer(
      "Example: memmodel calibrate --model resnet50.pt --batches 1-64\n"
      "Without a model: the GPU's properties and context alone. docs/devices.md says what is "
      "written\n"
      "where. Exit codes: 0 done, 2 wrong usage or unreadable input, 3 no GPU, or it did not "
      "answer.");
  sub->add_option("--model", arguments->models,
                  "TorchScript .pt or torch.export .pt2 file; more than once")
      ->type_name("FILE")
      ->allow_extra_args(false);
  sub->add_option("--batches", arguments->batches, "batches whose plans are asked: 1,2,8 or 1-64")
      ->type_name("LIST")
      ->capture_default_str();
  sub->add_option("--precision", arguments->precisions, "as of predict; more than once")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->capture_default_str();
  sub->add_option("--input", arguments->inputs, "as of predict, for all models")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  sub->add_option("--mode", arguments->mode, "train, infer")
      ->type_name("NAME")
      ->capture_default_str();
  sub->add_flag("--channels-last", arguments->channels_last, "model and batch in channels_last");
  sub->add_option("--plans", arguments->plans,
                  "further convolutions, one a line as in a table (docs/cudnn.md)")
      ->type_name("FILE");
  sub->add_option("--name", arguments->name,
                  "what --gpu shall call it; default: as the catalogue does")
      ->type_name("NAME");
  sub->add_flag("--no-run", arguments->no_run,
                "do not run the models on the GPU to measure their context");
  sub->add_option("--jobs", arguments->jobs,
                  "processes side by side, a context each; default: up to 12")
      ->type_name("N");
  sub->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace memmodel::cli
