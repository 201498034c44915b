// memmodel explain: what the memory is for, and what would lower it.
#include "src/explain/explain.h"

#include <memory>

#include "src/cli/interrupts.h"
#include "src/cli/job_flags.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"
#include "src/core/atomic_file.h"
#include "src/report/explain.h"

namespace memmodel::cli {
namespace {

struct Flags {
  JobFlags job;
  std::optional<std::int64_t> batch;
  double target = 0.8;
  bool quick = false, json = false;
  std::size_t groups = 12;
  std::string html;
};

void RunExplain(const Flags& flags, Context& context) {
  Result<PredictOptions> predict = ReadJobFlags(flags.job);
  if (!predict.ok()) return context.Fail(predict.status());
  ExplainOptions options;
  options.predict = *std::move(predict);
  options.predict.batch = flags.batch;
  options.predict.target = flags.target;
  options.suggest = !flags.quick;
  Interrupts interrupts;
  options.predict.child.interrupt_fd = interrupts.fd();
  Result<Explanation> explanation = Status::Internal("not asked");
  {
    Progress progress;
    options.predict.progress = [&progress](const std::string& text) { progress.Say(text); };
    explanation = Explain(options);
  }
  if (!explanation.ok()) {
    context.Fail(explanation.status());
    if (const int signal = interrupts.Caught(); signal != 0) context.exit_code = 128 + signal;
    return;
  }
  if (!flags.html.empty()) {
    const Result<std::string> page = FormatHtml(options.predict, explanation->prediction,
                                                explanation->trace, ForHtml(*explanation));
    if (!page.ok()) return context.Fail(page.status());
    if (Status status = WriteFileAtomically(flags.html, *page); !status.ok()) {
      return context.Fail(status);
    }
  }
  context.Print(flags.json ? ExplanationToJson(*explanation)
                           : FormatExplanation(*explanation, flags.groups));
}

}  // namespace

void AddExplain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain", "what the memory is for, what grows with the batch, and what would lower it");
  command->footer(
      "Example: memmodel explain --model resnet50.pt --gpu-mem 24G --html resnet50.html\n"
      "Exit codes: 0 explained, 2 wrong usage or unreadable input, 3 unknown.");
  const auto flags = std::make_shared<Flags>();
  AddJobFlags(command, &flags->job);
  command->add_option("--batch", flags->batch, "at this batch; default: the largest that fits")
      ->type_name("N");
  command
      ->add_option("--target", flags->target,
                   "share of the card that the process may use, as nvidia-smi counts it")
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_flag("--quick", flags->quick, "leave out what would lower it (a few seconds each)");
  command->add_option("--groups", flags->groups, "how many blocks and layers to print")
      ->capture_default_str();
  command->add_option("--html", flags->html, "also write a page with pictures to this file")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &context] { RunExplain(*flags, context); });
}

}  // namespace memmodel::cli
