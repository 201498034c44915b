// memmodel explain: what the memory is for, and what would lower it.
#include "src/explain/explain.h"

#include <memory>

#include "src/cli/answer.h"
#include "src/cli/job_flags.h"
#include "src/core/atomic_file.h"
#include "src/report/explain.h"

namespace memmodel::cli {
namespace {

struct Flags {
  JobFlags job;
  AnswerFlags answer;
  bool quick = false;
  std::size_t groups = 12;
};

void RunExplain(const Flags& flags, Context& context) {
  Result<PredictOptions> predict = ReadJobFlags(flags.job);
  if (!predict.ok()) return context.Fail(predict.status());
  ExplainOptions options;
  options.predict = *std::move(predict);
  options.predict.batch = flags.answer.batch;
  options.predict.target = flags.answer.target;
  options.suggest = !flags.quick;
  const std::optional<Explanation> explanation =
      RunJob(&options.predict, context, [&] { return Explain(options); });
  if (!explanation) return;
  if (!flags.answer.html.empty()) {
    const Result<std::string> page = FormatHtml(options.predict, explanation->prediction,
                                                explanation->trace, ForHtml(*explanation));
    if (!page.ok()) return context.Fail(page.status());
    const Status written = WriteFileAtomically(flags.answer.html, *page);
    if (!written.ok()) return context.Fail(written);
  }
  context.Print(flags.answer.json ? ExplanationToJson(*explanation)
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
  AddAnswerFlags(command, "at this batch; default: the largest that fits", &flags->answer);
  command->add_flag("--quick", flags->quick,
                    "leave out what would lower it (a second or two for each suggestion)");
  command->add_option("--groups", flags->groups, "how many blocks and layers to print")
      ->capture_default_str();
  command->callback([flags, &context] { RunExplain(*flags, context); });
}

}  // namespace memmodel::cli
