// What the subcommands that run a model have in common beside the job itself: what
// is asked of it, and how it is run.
#ifndef MEMMODEL_SRC_CLI_ANSWER_H_
#define MEMMODEL_SRC_CLI_ANSWER_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "memmodel/predict.h"
#include "src/cli/interrupts.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"

namespace memmodel::cli {

struct AnswerFlags {
  std::optional<std::int64_t> batch;
  double target = 0.8;
  bool json = false;
  std::string html;
};

// `about_batch` is the help text of --batch. `flags` must live as long as `command`.
inline void AddAnswerFlags(CLI::App* command, const std::string& about_batch, AnswerFlags* flags) {
  command->add_option("--batch", flags->batch, about_batch)->type_name("N");
  command
      ->add_option("--target", flags->target,
                   "share of the card that the process may use, as nvidia-smi counts it")
      ->type_name("SHARE")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON in place of the table");
  command->add_option("--html", flags->html, "also write a page with pictures to this file")
      ->type_name("FILE");
}

// Runs `work`, which uses `options`, with a progress line and so that Ctrl-C ends the
// children first. Of a failure the message is printed and the exit code set.
template <typename Work>
auto RunJob(PredictOptions* options, Context& context, const Work& work)
    -> std::optional<std::decay_t<decltype(*work())>> {
  Interrupts interrupts;
  options->child.interrupt_fd = interrupts.fd();
  auto answer = [&] {
    Progress progress;
    options->progress = [&progress](const std::string& text) { progress.Say(text); };
    auto result = work();
    options->progress = nullptr;
    return result;
  }();
  if (answer.ok()) return *std::move(answer);
  context.Fail(answer.status());
  if (const int signal = interrupts.Caught(); signal != 0) context.exit_code = 128 + signal;
  return std::nullopt;
}

}  // namespace memmodel::cli

#endif  // MEMMODEL_SRC_CLI_ANSWER_H_
