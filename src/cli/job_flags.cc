#include "src/cli/job_flags.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "memmodel/allocator_settings.h"

namespace memmodel::cli {
namespace {

// Parses `text` into `target` if it is not empty.
template <typename T, typename Parse>
Status ReadInto(const std::string& text, const Parse& parse, T* target) {
  if (text.empty()) return {};
  auto value = parse(text);
  if (!value.ok()) return value.status();
  *target = *std::move(value);
  return {};
}

Status ReadSize(const char* flag, const std::string& text, Bytes* target) {
  Result<Bytes> size = ParseBytes(text);
  if (!size.ok())
    return Status::InvalidArgument(std::string(flag) + ": " + size.status().message());
  *target = *size;
  return {};
}

}  // namespace

Status ReadUnknownCount(const std::string& text, std::optional<double>* share) {
  if (text.empty()) return {};
  if (text == "max") {
    *share = 1.0;
    return {};
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value >= 0 && value <= 1)) {
    return Status::InvalidArgument("--unknown-count '" + text +
                                   "'; it is max or a fraction from 0 to 1");
  }
  *share = value;
  return {};
}

void AddJobFlags(CLI::App* command, JobFlags* flags) {
  command->option_defaults()->group("Job");
  command->add_option("--model", flags->model, "TorchScript .pt or torch.export .pt2 file")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--input", flags->inputs,
                   "an input's [name=]shape[:dtype] without the batch dimension, such as "
                   "3x224x224 or tokens=512:int64; once for each input; default: found by trying")
      ->type_name("SPEC")
      ->allow_extra_args(false);
  command
      ->add_option("--optimizer", flags->optimizer,
                   "torch.optim's name and options, such as sgd:momentum=0.9 or "
                   "adamw:fused=true; default: adamw")
      ->type_name("NAME[:key=value,...]");
  command->add_option("--precision", flags->precision, "fp32, amp-bf16, amp-fp16, bf16, fp16")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--loss", flags->loss, "auto, ce, mse, sum, output")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--mode", flags->mode, "train, infer")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--accumulate", flags->accumulate, "micro-batches for each optimizer step")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--channels-last", flags->channels_last, "model and batch in channels_last");
  command->add_flag("--cudnn-benchmark", flags->cudnn_benchmark,
                    "torch.backends.cudnn.benchmark = True");
  command
      ->add_option("--clip-grad-norm", flags->clip_grad_norm,
                   "clip_grad_norm_ before each optimizer step")
      ->type_name("NORM");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "torch.utils.checkpoint around the modules whose paths match, such as "
                   "'encoder.layers.*'")
      ->type_name("GLOB");
  command->add_flag("--ema", flags->ema, "keep an exponential moving average of the weights");
  command->add_option("--steps", flags->steps, "optimizer steps to run")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--step-protocol", flags->step_protocol,
                   "which tensors of the step before are alive in the next: loop (the usual "
                   "Python loop), minimal, fresh")
      ->type_name("NAME")
      ->capture_default_str();

  command->option_defaults()->group("GPU");
  command->add_option("--gpu", flags->gpu, "a GPU of 'memmodel devices', such as rtx4090")
      ->type_name("NAME");
  command
      ->add_option("--gpu-mem", flags->gpu_mem,
                   "memory of the card: 24G and 24GiB are 24*2^30 bytes, 24GB is 24*10^9")
      ->type_name("SIZE");
  command->add_option("--device", flags->device, "virtual, or cuda for the real GPU")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--allocator-limit", flags->allocator_limit,
                   "cap on reserved memory, as set_per_process_memory_fraction sets it")
      ->type_name("SIZE");
  command
      ->add_option("--alloc-conf", flags->alloc_conf,
                   "PYTORCH_CUDA_ALLOC_CONF of the job, such as expandable_segments:True")
      ->type_name("STRING");
  command
      ->add_option("--unknown-count", flags->unknown_count,
                   "go on with this share of the largest possible count where only a real run "
                   "could know it: max or a fraction")
      ->type_name("max|FRACTION");
  command->add_option("--jobs", flags->jobs, "runs side by side")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--timeout", flags->timeout_s,
                   "seconds that loading, or one run, may take; default: 120 and 300")
      ->type_name("SECONDS");
  command->option_defaults()->group("Options");
}

Status ReadGpuFlags(const std::string& gpu, const std::string& gpu_mem, PredictOptions* options) {
  if (gpu.empty() && gpu_mem.empty()) {
    return Status::InvalidArgument(
        "which GPU? Give --gpu NAME ('memmodel devices' lists them) or --gpu-mem SIZE, such as "
        "--gpu-mem 24G");
  }
  Bytes total = 0;
  if (!gpu_mem.empty()) {
    if (Status s = ReadSize("--gpu-mem", gpu_mem, &total); !s.ok()) return s;
  }
  Result<DeviceCatalogue> catalogue = DeviceCatalogue::ReadAll();
  if (!catalogue.ok()) return catalogue.status();
  Result<Device> device = gpu.empty() ? catalogue->OfMemory(total) : catalogue->Find(gpu);
  if (!device.ok()) return device.status();
  options->device = *std::move(device);
  options->total_bytes = gpu_mem.empty() ? options->device.total_bytes : total;
  if (gpu.empty()) {
    options->assumed.emplace_back("gpu");
    options->assumptions.push_back("a card of " + FormatBytes(total) + " (" +
                                   std::to_string(total) + " bytes) with the properties of an " +
                                   options->device.device_name + ", whose own total is " +
                                   FormatBytes(options->device.total_bytes) +
                                   " (--gpu NAME for another)");
  }
  return {};
}

std::string CacheFolder() {
  const char* own = std::getenv("MEMMODEL_VGPU_CACHE");
  if (own != nullptr) return own;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  folder /= "memmodel/cudnn";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? "" : folder.string();
}

Result<PredictOptions> ReadJobFlags(const JobFlags& flags) {
  PredictOptions options;
  Job& job = options.job;
  job.model = flags.model;
  for (const std::string& text : flags.inputs) {
    Result<InputSpec> spec = ParseInputSpec(text);
    if (!spec.ok()) return spec.status();
    job.inputs.push_back(*std::move(spec));
  }
  Bytes limit = 0;
  for (const Status& status : {
           ReadInto(flags.optimizer, ParseOptimizer, &job.optimizer),
           ReadInto(flags.precision, ParsePrecision, &job.precision),
           ReadInto(flags.loss, ParseLoss, &job.loss),
           ReadInto(flags.mode, ParseMode, &job.mode),
           ReadInto(flags.step_protocol, ParseStepProtocol, &job.step_protocol),
           ReadInto(flags.device, ParseDeviceKind, &job.device),
           ReadUnknownCount(flags.unknown_count, &options.unknown_count),
           flags.allocator_limit.empty()
               ? Status::Ok()
               : ReadSize("--allocator-limit", flags.allocator_limit, &limit),
           ReadGpuFlags(flags.gpu, flags.gpu_mem, &options),
       }) {
    if (!status.ok()) return status;
  }
  if (!flags.alloc_conf.empty()) {
    Result<AllocatorSettings> settings = ParseAllocatorSettings(flags.alloc_conf);
    if (!settings.ok()) {
      return Status::InvalidArgument("--alloc-conf: " + settings.status().message());
    }
  }
  if (!flags.allocator_limit.empty()) options.allocator_limit = limit;
  job.accumulate = flags.accumulate;
  job.channels_last = flags.channels_last;
  job.cudnn_benchmark = flags.cudnn_benchmark;
  job.clip_grad_norm = flags.clip_grad_norm;
  job.ema = flags.ema;
  job.checkpoint = flags.checkpoint;
  job.alloc_conf = flags.alloc_conf;
  options.steps = flags.steps;
  options.parallel_probes = std::max(1, flags.jobs);
  if (flags.timeout_s > 0) {
    options.child.load_timeout_s = options.child.probe_timeout_s = flags.timeout_s;
  }
  if (job.device == DeviceKind::kVirtual) {
    options.child.environment = {{"MEMMODEL_VGPU_DEVICE", options.device.path},
                                 {"MEMMODEL_VGPU_CACHE", CacheFolder()}};
  }
  if (flags.optimizer.empty() && job.mode == Mode::kTrain) {
    options.assumed.emplace_back("optimizer");
    options.assumptions.emplace_back("optimizer adamw with torch's defaults (--optimizer)");
  }
  return options;
}

}  // namespace memmodel::cli
