#include "memmodel/predict.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "memmodel/report.h"
#include "src/cli/interrupts.h"
#include "src/cli/job_flags.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"
#include "src/core/atomic_file.h"
#include "src/report/html.h"

namespace memmodel::cli {
namespace {

struct Flags {
  JobFlags job;
  std::optional<std::int64_t> batch;
  double target = 0.8;
  bool json = false;
  std::string html;
};

void RunPredict(const Flags& flags, Context& context) {
  Result<PredictOptions> options = ReadJobFlags(flags.job);
  if (!options.ok()) return context.Fail(options.status());
  options->batch = flags.batch;
  options->target = flags.target;
  Interrupts interrupts;
  options->child.interrupt_fd = interrupts.fd();
  Result<Prediction> prediction = Status::Internal("not asked");
  {
    Progress progress;
    options->progress = [&progress](const std::string& text) { progress.Say(text); };
    prediction = Predict(*options);
  }
  if (!prediction.ok()) {
    context.Fail(prediction.status());
    if (const int signal = interrupts.Caught(); signal != 0) context.exit_code = 128 + signal;
    return;
  }
  if (!flags.html.empty()) {
    if (!prediction->trace) {
      return context.Fail(Status::Unknown("--html: there is nothing to draw: " + prediction->reason));
    }
    const Result<std::string> page = FormatHtml(*options, *prediction, *prediction->trace);
    if (!page.ok()) return context.Fail(page.status());
    if (Status s = WriteFileAtomically(flags.html, *page); !s.ok()) return context.Fail(s);
  }
  const std::string report =
      flags.json ? FormatJson(*options, *prediction) : FormatTable(*options, *prediction);
  context.exit_code = ExitCode(*prediction);
  context.Print(report);
}

}  // namespace

void AddPredict(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "predict", "will this model fit on that GPU, and what is the largest batch that does?");
  command->footer(
      "Example: memmodel predict --model resnet50.pt --gpu-mem 24G\n"
      "Exit codes: 0 it fits, 1 it does not fit, 2 wrong usage or unreadable input, 3 unknown.");
  const auto flags = std::make_shared<Flags>();
  AddJobFlags(command, &flags->job);
  command->add_option("--batch", flags->batch,
                      "does this batch fit? Without it: which is the largest that does")
      ->type_name("N");
  command->add_option("--target", flags->target,
                      "share of the card that the process may use, as nvidia-smi counts it")
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON (docs/json.md) in place of the table");
  command->add_option("--html", flags->html, "also write a page with pictures to this file")
      ->type_name("FILE");
  command->callback([flags, &context] { RunPredict(*flags, context); });
}

}  // namespace memmodel::cli
