#include "src/step/probe.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/step/device.h"
#include "src/step/torch_compat.h"
#include "src/step/training.h"
#include "src/tracer/known_bytes.h"
#include "src/tracer/operator_log.h"

namespace memmodel::step {
namespace {

// Where the last allocation failed; written by the allocator's observer, in the
// thread and operator that asked.
struct Failure {
  std::string op;
  std::string module;
};

Failure& LastOutOfMemory() {
  static Failure failure;
  return failure;
}

bool IsOutOfMemory(const std::string& message) {
  return message.starts_with("CUDA out of memory") ||
         message.find("CUDA error: out of memory") != std::string::npos;
}

std::string Metadata(const Job& job, const Probe& probe, const LossPlan& plan) {
  const nlohmann::ordered_json json = {{"torch_version", TorchVersion()},
                                       {"cudnn_version", CudnnVersion()},
                                       {"device", job.virtual_device ? "virtual" : "cuda"},
                                       {"model", job.model},
                                       {"batch", probe.batch},
                                       {"steps", probe.steps},
                                       {"optimizer", job.optimizer.name},
                                       {"precision", job.precision},
                                       {"mode", job.training ? "train" : "infer"},
                                       {"loss", plan.kind},
                                       {"step_protocol", ProtocolName(job.protocol)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ProbeAnswer RunProbe(const Job& job, const Probe& probe, const std::vector<InputSpec>& inputs,
                     const LossPlan& plan, Model& model, tracer::LastStarted* last) {
  const auto start = std::chrono::steady_clock::now();
  ProbeAnswer answer;
  answer.id = probe.id;
  answer.loss = plan.kind;
  std::unique_ptr<tracer::Recorder> recorder;
  try {
    StartDevice(job, probe);
    c10::cuda::CUDACachingAllocator::attachOutOfMemoryObserver(
        [](std::int64_t, std::size_t, std::size_t, std::size_t) {
          LastOutOfMemory() = {tracer::CurrentOperatorName(), tracer::CurrentModulePath()};
        });
    if (probe.trace.empty()) {
      tracer::WatchOperators(tracer::OperatorDetail::kNameOnly, last);
    } else {
      recorder = std::make_unique<tracer::Recorder>(last);
    }
    tracer::WatchUnknownReads(probe.unknown_count);
    tracer::ForgetReusedBytes();
    // Never destroyed: the process ends with its tensors alive.
    auto* training = new Training(job, probe, inputs, model, recorder.get());
    training->Run(plan, &answer);
    answer.outcome = "ok";
  } catch (const std::exception& e) {
    answer.error_message = FirstLine(e);
    if (IsOutOfMemory(answer.error_message)) {
      answer.outcome = "oom";
      answer.error_operator = LastOutOfMemory().op;
      answer.error_module = LastOutOfMemory().module;
    } else {
      answer.error_operator = last->op;
      answer.error_module = last->module;
    }
  }
  ReadPeaks(&answer);
  answer.unknown = tracer::TakeUnknownReads();
  answer.vgpu_report = DeviceReport();
  if (recorder != nullptr) {
    const Trace trace = recorder->Take(Metadata(job, probe, plan));
    if (const Status status = WriteTrace(trace, probe.trace); !status.ok()) {
      answer.outcome = "error";
      answer.error_message = status.message();
    }
  }
  answer.elapsed_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return answer;
}

Trial TryInputs(const Job& job, const std::vector<InputSpec>& inputs, std::int64_t batch,
                Model& model, tracer::LastStarted* last) {
  Trial trial;
  try {
    Probe probe;
    probe.batch = batch;
    StartDevice(job, probe);
    at::globalContext().setUserEnabledCuDNN(!job.virtual_device);
    tracer::WatchOperators(tracer::OperatorDetail::kFull, last);
    auto* training = new Training(job, probe, inputs, model, nullptr);
    const c10::IValue output = training->Try();
    const bool wants_loss = job.training || job.loss != "auto";
    Result<LossPlan> plan = PlanLoss(output, job.loss, batch);
    if (!plan.ok()) {
      trial.error = plan.status().message();
      trial.unknown = plan.status().code() == StatusCode::kUnknown;
    } else {
      trial.plan = *plan;
      if (!wants_loss) {
        trial.plan.kind = "none";
        trial.plan.target_shape.clear();
      }
    }
  } catch (const std::exception& e) {
    trial.error = FirstLine(e);
    trial.op = last->op;
    trial.module = last->module;
  }
  return trial;
}

std::string FormatTrial(const Trial& trial) {
  const nlohmann::json json = {{"error", trial.error},
                               {"operator", trial.op},
                               {"module", trial.module},
                               {"unknown", trial.unknown},
                               {"kind", trial.plan.kind},
                               {"member", trial.plan.member},
                               {"target", trial.plan.target_shape},
                               {"batch", trial.plan.batch},
                               {"dtype", static_cast<int>(trial.plan.target_dtype)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Trial ParseTrial(const std::string& text) {
  Trial trial;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    trial.error = json.at("error");
    trial.op = json.at("operator");
    trial.module = json.at("module");
    trial.unknown = json.at("unknown");
    trial.plan.kind = json.at("kind");
    trial.plan.member = json.at("member");
    trial.plan.target_shape = json.at("target").get<std::vector<std::int64_t>>();
    trial.plan.batch = json.at("batch");
    trial.plan.target_dtype = static_cast<at::ScalarType>(json.at("dtype").get<int>());
  } catch (const nlohmann::json::exception&) {
    trial.error = "the trial run of the network ended without an answer";
  }
  return trial;
}

}  // namespace memmodel::step
