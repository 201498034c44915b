// memmodel simulate: a request stream through the CUDA caching allocator.
#include <memory>

#include "memmodel/allocator_replay.h"
#include "src/cli/subcommand.h"

namespace memmodel::cli {
namespace {

struct Arguments {
  std::string requests, alloc_conf, limit, gpu_mem, context, addresses = "own", snapshot;
  bool conf_given = false;
  bool json = false;
};

// SIZE of the option `name`, or nothing if it was not given.
Result<std::optional<Bytes>> Size(const std::string& text, const char* name) {
  if (text.empty()) return std::optional<Bytes>();
  const Result<Bytes> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return Status::InvalidArgument(std::string(name) + ": " + bytes.status().message());
  }
  return std::optional<Bytes>(*bytes);
}

Result<ReplayOptions> OptionsFrom(const Arguments& arguments) {
  ReplayOptions options;
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(arguments.alloc_conf);
  if (!settings.ok()) return settings.status();
  options.allocator.settings = *settings;
  const auto limit = Size(arguments.limit, "--allocator-limit");
  if (!limit.ok()) return limit.status();
  const auto total = Size(arguments.gpu_mem, "--gpu-mem");
  if (!total.ok()) return total.status();
  const auto context = Size(arguments.context, "--context");
  if (!context.ok()) return context.status();
  options.allocator.limit_bytes = *limit;
  if (*total) {
    if (context->value_or(0) >= **total) {
      return Status::InvalidArgument("--context " + FormatBytes(context->value_or(0)) +
                                     " leaves nothing of --gpu-mem " + FormatBytes(**total));
    }
    options.allocator.total_bytes = **total;
    options.capacity = **total - context->value_or(0);
    if (*limit) {
      // torch.cuda.set_per_process_memory_fraction(limit / total)
      const auto all = static_cast<double>(**total);
      options.allocator.limit_bytes = static_cast<Bytes>(static_cast<double>(**limit) / all * all);
    }
  } else if (*context) {
    return Status::InvalidArgument("--context needs --gpu-mem");
  }
  if (arguments.addresses == "recorded") {
    options.segment_addresses = SegmentAddresses::kRecorded;
  } else if (arguments.addresses != "own") {
    return Status::InvalidArgument("--segment-addresses is '" + arguments.addresses +
                                   "', must be own or recorded");
  }
  return options;
}

std::string Row(const char* name, Bytes bytes) {
  char text[96];
  std::snprintf(text, sizeof text, "  %-17s %12s %20lld bytes\n", name, FormatBytes(bytes).c_str(),
                static_cast<long long>(bytes));
  return text;
}

std::string Table(const Arguments& arguments, const ReplayResult& result, const Trace& trace) {
  const AllocatorStatistics& s = result.statistics;
  std::string text = "CUDA caching allocator of torch " +
                     std::string(AllocatorSettings::kTorchVersion) + ", settings: " +
                     (arguments.alloc_conf.empty() ? "default" : arguments.alloc_conf) + "\n";
  text += Row("peak allocated", s.allocated_bytes.all.peak);
  text += Row("peak reserved", s.reserved_bytes.all.peak);
  text += Row("peak active", s.active_bytes.all.peak);
  text += Row("peak requested", s.requested_bytes.all.peak);
  text += "  requests and releases " + std::to_string(result.requests) + ", retries " +
          std::to_string(s.num_alloc_retries) + ", out of memory " + std::to_string(s.num_ooms) +
          "\n  segments at the end " + std::to_string(result.segments.size()) + "\n";
  if (result.first_failure) {
    const Event& event = trace.events[*result.first_failure];
    text += "  does not fit: event " + std::to_string(*result.first_failure) + ", " +
            FormatBytes(event.size);
    if (event.op != OperatorId::kNone) text += " for " + std::string(trace.OperatorName(event.op));
    if (event.module != ModuleId::kNone) text += " in " + std::string(trace.ModulePath(event.module));
    text += "\n";
  }
  if (result.unmatched_frees > 0) {
    text += "  " + std::to_string(result.unmatched_frees) +
            " releases of blocks that the stream does not allocate were left out\n";
  }
  if (arguments.addresses == "recorded") {
    text += result.first_difference.empty()
                ? "  every address and segment as recorded\n"
                : "  otherwise than recorded, " + std::to_string(result.differing_addresses) +
                      " addresses differ; first\n    " + result.first_difference + "\n";
  }
  return text;
}

void Run(Arguments arguments, Context& context) {
  if (!arguments.conf_given) arguments.alloc_conf = AllocatorConfFromEnvironment();
  const Result<ReplayOptions> options = OptionsFrom(arguments);
  if (!options.ok()) return context.Fail(options.status());
  const Result<Trace> trace = ReadTrace(arguments.requests);
  if (!trace.ok()) return context.Fail(trace.status());
  std::vector<Event> simulated;
  const Result<ReplayResult> result = Replay(*trace, *options, &simulated);
  if (!result.ok()) return context.Fail(result.status());
  if (!arguments.snapshot.empty()) {
    const Status written =
        WriteSnapshot(*result, simulated, arguments.alloc_conf, arguments.snapshot);
    if (!written.ok()) return context.Fail(written);
  }
  context.Print(arguments.json ? ReplayToJson(*result) + "\n" : Table(arguments, *result, *trace));
  if (context.exit_code == kExitFits && result->first_failure) context.exit_code = kExitDoesNotFit;
}

}  // namespace

void AddSimulate(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* sub = app.add_subcommand(
      "simulate",
      "Sends a request stream through PyTorch's CUDA caching allocator, under any\n"
      "settings and limit, without PyTorch. Exit code 1: a request failed that had not\n"
      "when it was recorded.");
  sub->add_option("--requests", arguments->requests, "A trace or request stream, plain or gzip")
      ->required();
  CLI::Option* conf = sub->add_option(
      "--alloc-conf", arguments->alloc_conf,
      "As in PYTORCH_ALLOC_CONF (default: the environment's)");
  sub->add_option("--allocator-limit", arguments->limit,
                  "SIZE that it may reserve, as\nset_per_process_memory_fraction sets it");
  sub->add_option("--gpu-mem", arguments->gpu_mem, "SIZE of the device (default: no end)");
  sub->add_option("--context", arguments->context, "SIZE of it that the CUDA context takes");
  sub->add_option("--segment-addresses", arguments->addresses,
                  "own, or recorded: those of the stream's S and M\n"
                  "lines, so that ties fall as they did")
      ->capture_default_str();
  sub->add_option("--snapshot", arguments->snapshot,
                  "Write what was simulated to this file, for\npytorch.org/memory_viz");
  sub->add_flag("--json", arguments->json, "Print one JSON object");
  sub->callback([arguments, conf, &context] {
    arguments->conf_given = conf->count() > 0;
    Run(*arguments, context);
  });
}

}  // namespace memmodel::cli
