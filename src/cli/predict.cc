#include "memmodel/predict.h"

#include <memory>

#include "memmodel/report.h"
#include "src/cli/answer.h"
#include "src/cli/job_flags.h"
#include "src/core/atomic_file.h"
#include "src/report/html.h"

namespace memmodel::cli {
namespace {

struct Flags {
  JobFlags job;
  AnswerFlags answer;
};

void RunPredict(const Flags& flags, Context& context) {
  Result<PredictOptions> options = ReadJobFlags(flags.job);
  if (!options.ok()) return context.Fail(options.status());
  options->batch = flags.answer.batch;
  options->target = flags.answer.target;
  const std::optional<Prediction> prediction =
      RunJob(&*options, context, [&] { return Predict(*options); });
  if (!prediction) return;
  if (!flags.answer.html.empty()) {
    if (!prediction->trace) {
      return context.Fail(
          Status::Unknown("--html: there is nothing to draw: " + prediction->reason));
    }
    const Result<std::string> page = FormatHtml(*options, *prediction, *prediction->trace);
    if (!page.ok()) return context.Fail(page.status());
    const Status written = WriteFileAtomically(flags.answer.html, *page);
    if (!written.ok()) return context.Fail(written);
  }
  const std::string report =
      flags.answer.json ? FormatJson(*options, *prediction) : FormatTable(*options, *prediction);
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
  AddAnswerFlags(command, "does this batch fit? Without it: which is the largest that does",
                 &flags->answer);
  command->callback([flags, &context] { RunPredict(*flags, context); });
}

}  // namespace memmodel::cli
