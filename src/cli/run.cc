#include "memmodel/run.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memmodel/allocator_settings.h"
#include "src/cli/interrupts.h"
#include "src/cli/job_flags.h"
#include "src/cli/progress.h"
#include "src/cli/subcommand.h"

namespace memmodel::cli {
namespace {

struct Flags {
  std::string gpu, gpu_mem, allocator_limit, unknown_count, device = "virtual";
  RunOptions run;
  bool json = false;
  bool synthetic_data = false, scratch_output = false;
};

// What a hook could only do by guessing, with what does it safely.
Status RefuseGuesses(const Flags& flags) {
  if (flags.synthetic_data) {
    return Status::InvalidArgument(
        "--synthetic-data is not offered: what a script reads decides the shapes that it trains "
        "on, and those decide memory. Use the script's own synthetic data set if it has one, or a "
        "few files of the true shapes: only --steps batches are read");
  }
  if (flags.scratch_output) {
    return Status::InvalidArgument(
        "--scratch-output is not offered: where a script writes is its own affair. Give it a "
        "temporary folder (--output-dir \"$(mktemp -d)\" or what it is called there), or run it "
        "in an empty working folder: 'cd \"$(mktemp -d)\"' before memmodel");
  }
  return {};
}

Result<RunOptions> ReadFlags(const Flags& flags) {
  if (Status s = RefuseGuesses(flags); !s.ok()) return s;
  RunOptions options = flags.run;
  PredictOptions gpu;
  if (Status s = ReadGpuFlags(flags.gpu, flags.gpu_mem, &gpu); !s.ok()) return s;
  options.device = std::move(gpu.device);
  options.total_bytes = gpu.total_bytes;
  options.assumptions = std::move(gpu.assumptions);
  if (!flags.allocator_limit.empty()) {
    Result<Bytes> limit = ParseBytes(flags.allocator_limit);
    if (!limit.ok())
      return Status::InvalidArgument("--allocator-limit: " + limit.status().message());
    options.allocator_limit = *limit;
  }
  if (!options.alloc_conf.empty()) {
    if (auto settings = ParseAllocatorSettings(options.alloc_conf); !settings.ok()) {
      return Status::InvalidArgument("--alloc-conf: " + settings.status().message());
    }
  }
  if (Status s = ReadUnknownCount(flags.unknown_count, &options.unknown_count); !s.ok()) return s;
  Result<DeviceKind> kind = ParseDeviceKind(flags.device);
  if (!kind.ok()) return kind.status();
  options.device_kind = *kind;
  options.cache = CacheFolder();
  return options;
}

void RunRun(const Flags& flags, Context& context) {
  Result<RunOptions> options = ReadFlags(flags);
  if (!options.ok()) return context.Fail(options.status());
  Interrupts interrupts;
  options->interrupt_fd = interrupts.fd();
  Result<RunAnswer> answer = Status::Internal("not asked");
  {
    std::optional<Progress> progress;
    if (options->find_batch) {  // else the script's own output says what is going on
      progress.emplace();
      options->progress = [&progress](const std::string& text) { progress->Say(text); };
    }
    answer = Run(*options);
  }
  if (!answer.ok()) {
    context.Fail(answer.status());
    if (const int signal = interrupts.Caught(); signal != 0) context.exit_code = 128 + signal;
    return;
  }
  context.exit_code = ExitCode(answer->prediction);
  context.Print(flags.json ? FormatRunJson(*options, *answer) : FormatRunTable(*options, *answer));
}

}  // namespace

void AddRun(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("run", "run a training script on the virtual GPU, as it is: does it fit?");
  command->footer(
      "Example: memmodel run --gpu rtx3090 -- python train.py --batch-size 64\n"
      "         memmodel run --gpu-mem 24G --find-batch -- python train.py --batch-size {batch}\n"
      "The script's output goes to standard error, the answer to standard output.\n"
      "Exit codes: 0 it fits, 1 it does not fit, 2 wrong usage or the script fails, 3 unknown.");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--gpu", flags->gpu, "a GPU of 'memmodel devices', such as rtx4090")
      ->type_name("NAME");
  command
      ->add_option("--gpu-mem", flags->gpu_mem,
                   "memory of the card: 24G and 24GiB are 24*2^30 bytes, 24GB is 24*10^9")
      ->type_name("SIZE");
  command
      ->add_option("--device", flags->device,
                   "virtual, or cuda: measure the script on this machine's real GPU")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--gpus", flags->run.gpus, "number of GPUs of the machine (torchrun, mp.spawn)")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--steps", flags->run.steps,
                   "optimizer steps after which the script is ended; 0: it runs to its own end")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--find-batch", flags->run.find_batch,
                    "the largest batch that fits; {batch} in the command is replaced");
  command
      ->add_option("--target", flags->run.target,
                   "share of the card that the process may use, as nvidia-smi counts it")
      ->type_name("SHARE")
      ->capture_default_str();
  command
      ->add_option("--allocator-limit", flags->allocator_limit,
                   "cap on reserved memory, as set_per_process_memory_fraction sets it")
      ->type_name("SIZE");
  command
      ->add_option("--alloc-conf", flags->run.alloc_conf,
                   "PYTORCH_ALLOC_CONF of the script, such as expandable_segments:True")
      ->type_name("STRING");
  command
      ->add_option("--unknown-count", flags->unknown_count,
                   "go on with this share of the largest possible count where only a real run "
                   "could know it (nonzero, masks, unique): max or a fraction")
      ->type_name("max|FRACTION");
  command->add_flag("--eager", flags->run.eager,
                    "torch.compile leaves functions as they are (TORCHDYNAMO_DISABLE=1)");
  command
      ->add_option("--output", flags->run.trace_output,
                   "every event of the process that needs most, for simulate, diff and fit")
      ->type_name("FILE");
  command
      ->add_option("--timeout", flags->run.timeout_s, "seconds that one run of the script may take")
      ->type_name("SECONDS");
  command->add_flag("--synthetic-data", flags->synthetic_data)->group("");
  command->add_flag("--scratch-output", flags->scratch_output)->group("");
  command->add_flag("--json", flags->json, "print JSON (docs/run.md) in place of the table");
  command->add_option("command", flags->run.command, "the command that trains, after --")
      ->type_name("COMMAND");
  command->positionals_at_end();
  command->callback([flags, &context] { RunRun(*flags, context); });
}

}  // namespace memmodel::cli
