// memmodel diff A B: aligns two traces and prints where they differ.
#include "memmodel/diff.h"

#include <cstdio>
#include <memory>

#include "src/cli/subcommand.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  std::string a, b;
  DiffOptions options;
  std::size_t shown = 10;
  bool json = false;
};

void Run(const Arguments& arguments, Context& context) {
  const Result<Trace> a = ReadTrace(arguments.a);
  if (!a.ok()) return context.Fail(a.status());
  const Result<Trace> b = ReadTrace(arguments.b);
  if (!b.ok()) return context.Fail(b.status());
  const Result<TraceDiff> diff = DiffTraces(*a, *b, arguments.options);
  if (!diff.ok()) return context.Fail(diff.status());
  const std::string text = arguments.json
                               ? DiffToJson(*diff, arguments.a, arguments.b, arguments.shown) + "\n"
                               : FormatDiff(*diff, arguments.a, arguments.b, arguments.shown);
  std::fwrite(text.data(), 1, text.size(), stdout);
  context.exit_code = diff->identical ? 0 : 1;
}

}  // namespace

void AddDiff(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "diff",
      "Aligns two traces request by request: the first differences, and a summary by\n"
      "operator family and library. Exit code 0: identical, 1: they differ.");
  sub->add_option("A", arguments->a, "A trace or bare request stream, plain or gzip")->required();
  sub->add_option("B", arguments->b, "The trace to compare it with")->required();
  sub->add_option("--shown", arguments->shown, "How many differences to print")
      ->capture_default_str();
  sub->add_flag("--skip-load", arguments->options.skip_load,
                "Compare the steps alone, not the loading of the parameters");
  sub->add_flag("--json", arguments->json, "Print one JSON object");
  sub->callback([arguments, &context] { Run(*arguments, context); });
}

}  // namespace memmodel::cli
