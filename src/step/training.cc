#include "src/step/training.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <shared_mutex>
#include <utility>

#include "src/step/autocast.h"
#include "src/step/clip.h"
#include "src/step/device.h"
#include "src/tracer/unknown_reads.h"

namespace memmodel::step {
namespace {

const at::Device kGpu(at::kCUDA, 0);

std::optional<at::ScalarType> WeightDtype(const Job& job) {
  if (job.precision == "bf16") return at::kBFloat16;
  if (job.precision == "fp16") return at::kHalf;
  return std::nullopt;
}

at::Tensor Fill(const std::vector<std::int64_t>& shape, at::ScalarType dtype, bool virtual_device) {
  // Both take one block of the same size, as tensor.to("cuda") does, and launch no kernel:
  // where the driver puts the next segments depends on whether there was one.
  if (virtual_device) return at::empty(shape, at::TensorOptions().device(kGpu).dtype(dtype));
  return at::zeros(shape, dtype).to(kGpu);
}

}  // namespace

std::vector<at::Tensor> MakeInputs(const std::vector<InputSpec>& specs, std::int64_t batch,
                                   bool virtual_device) {
  std::vector<at::Tensor> inputs;
  for (const InputSpec& spec : specs) {
    std::vector<std::int64_t> shape{batch};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    inputs.push_back(Fill(shape, spec.dtype, virtual_device));
  }
  return inputs;
}

void PrepareModel(const Job& job, Model& model) {
  model.SetTraining(job.training);
  const Autocast autocast(job.precision);  // TorchScript compiles for it apart
  model.Prepare();
}

Training::Training(const Job& job, const Probe& probe, std::vector<InputSpec> inputs, Model& model,
                   tracer::Recorder* recorder)
    : job_(job), probe_(probe), specs_(std::move(inputs)), model_(model), recorder_(recorder) {}

void Training::Mark(std::string_view text) {
  if (recorder_ != nullptr) recorder_->Mark(text);
}

void Training::LoadModel() {
  Mark(marker::kLoad);
  model_.SetTraining(job_.training);
  if (const auto dtype = WeightDtype(job_)) model_.ToDtype(*dtype);
  model_.To(kGpu);
  if (job_.channels_last) model_.ToChannelsLast();
  parameters_ = model_.Parameters();
}

void Training::MakeBatch() {
  // One after the other, each assigned before the next is made.
  inputs_.resize(specs_.size());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    InputSpec spec = specs_[i];
    const auto dtype = WeightDtype(job_);
    if (dtype && at::isFloatingType(spec.dtype)) spec.dtype = *dtype;
    at::Tensor input = MakeInputs({spec}, probe_.batch, job_.virtual_device).front();
    if (job_.channels_last && input.dim() == 4) {
      input = input.contiguous(at::MemoryFormat::ChannelsLast);
    }
    inputs_[i] = std::move(input);
    if (recorder_ != nullptr) recorder_->Tag(TensorRole::kInput, inputs_[i], "input");
  }
  if (!plan_.target_shape.empty()) {
    std::vector<std::int64_t> shape = plan_.target_shape;
    shape[0] = shape[0] / plan_.batch * probe_.batch;
    target_ = Fill(shape, plan_.target_dtype, job_.virtual_device);
    if (recorder_ != nullptr) recorder_->Tag(TensorRole::kInput, target_, "target");
  }
}

c10::IValue Training::CallModel() { return model_.Forward(inputs_); }

void Training::Forward() {
  const bool keep_output = job_.protocol == StepProtocol::kLoop ||
                           (job_.protocol == StepProtocol::kMinimal && job_.accumulate == 1);
  at::Tensor output;  // the Python function's variable, where it is one
  at::Tensor& held = keep_output ? output_ : output;
  at::Tensor returned;  // fresh: the loss of a function that returns it
  at::Tensor& loss = job_.protocol == StepProtocol::kFresh ? returned : loss_;
  {
    const Autocast autocast(job_.precision);
    if (plan_.kind == "output") {
      loss = TakeMember(CallModel(), plan_);
    } else {
      held = TakeMember(CallModel(), plan_);
      if (recorder_ != nullptr) recorder_->Tag(TensorRole::kOutput, held, "output");
      loss = ComputeLoss(plan_, held, target_);
    }
  }
  output.reset();
  if (returned.defined()) loss_ = std::move(returned);
  if (recorder_ != nullptr) recorder_->Tag(TensorRole::kLoss, loss_, "loss");
}

void Training::Backward() {
  if (job_.precision == "amp-fp16") {
    torch::autograd::backward({scaler_.Scale(loss_)});
  } else {
    torch::autograd::backward({loss_});
  }
}

void Training::OptimizerStep() {
  const bool scaled = job_.precision == "amp-fp16";
  if (job_.clip_grad_norm > 0) {
    if (scaled) scaler_.Unscale(*optimizer_);
    ClipGradNorm(parameters_, job_.clip_grad_norm);
  }
  if (scaled) {
    scaler_.Step(*optimizer_);
    scaler_.Update();
  } else {
    optimizer_->Step();
  }
  if (job_.ema) UpdateAverage(ema_, parameters_);
}

void Training::TagAll() {
  if (recorder_ == nullptr || tagged_) return;
  tagged_ = true;
  for (const NamedTensor& state : optimizer_->State()) {
    recorder_->Tag(TensorRole::kOptimizerState, state.tensor, state.name);
  }
  for (const at::Tensor& average : ema_) {
    recorder_->Tag(TensorRole::kOptimizerState, average, "ema");
  }
  for (auto* workspaces : {&at::cuda::cublas_handle_stream_to_workspace(),
                           &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::shared_lock<std::shared_mutex> lock(workspaces->mutex);
    for (const auto& [key, data] : workspaces->map) {
      recorder_->TagAddress(TensorRole::kLibraryWorkspace, data.get(), 0, "cublas");
    }
  }
}

void Training::TrainStep(ProbeAnswer* answer) {
  const bool fresh = job_.protocol == StepProtocol::kFresh;
  const bool minimal = job_.protocol == StepProtocol::kMinimal;
  StepFigures figures;
  Mark(std::string(marker::kStepPrefix) + std::to_string(probe_.batch));
  if (job_.protocol == StepProtocol::kLoop) MakeBatch();
  optimizer_->ZeroGrad();
  for (int micro = 0; micro < job_.accumulate; ++micro) {
    if (micro > 0) Mark(marker::kMicroBatch);
    if (fresh || (job_.protocol == StepProtocol::kLoop && micro > 0)) MakeBatch();
    tracer::SetUnknownReadPhase("forward");
    Forward();
    Mark(marker::kForwardDone);
    PhaseFigures phase = ReadPhase();
    figures.forward.peak_allocated = std::max(figures.forward.peak_allocated, phase.peak_allocated);
    figures.forward.allocated = phase.allocated;
    tracer::SetUnknownReadPhase("backward");
    Backward();
    if (recorder_ != nullptr && micro + 1 == job_.accumulate) {
      for (const NamedTensor& p : parameters_) {
        recorder_->Tag(TensorRole::kGradient, p.tensor.grad(), p.name);
      }
    }
    if (minimal && job_.accumulate > 1) loss_.reset();
    Mark(marker::kBackwardDone);
    if (fresh) {
      for (at::Tensor& input : inputs_) input.reset();
      target_.reset();
    }
    phase = ReadPhase();
    figures.backward.peak_allocated =
        std::max(figures.backward.peak_allocated, phase.peak_allocated);
    figures.backward.allocated = phase.allocated;
  }
  tracer::SetUnknownReadPhase("optimizer");
  OptimizerStep();
  Mark(marker::kStepDone);
  TagAll();
  figures.step = ReadPhase();
  figures.reserved = ReservedBytes();
  answer->steps.push_back(figures);
  if (minimal || fresh) loss_.reset();
  if (minimal) output_.reset();
}

void Training::InferStep(ProbeAnswer* answer) {
  const at::NoGradGuard no_grad;
  StepFigures figures;
  Mark(std::string(marker::kStepPrefix) + std::to_string(probe_.batch));
  if (job_.protocol != StepProtocol::kMinimal) MakeBatch();
  {
    const Autocast autocast(job_.precision);
    if (plan_.kind == "none") {
      output_ = TakeMember(CallModel(), plan_);
      if (recorder_ != nullptr) recorder_->Tag(TensorRole::kOutput, output_, "output");
    } else {
      const at::Tensor output = TakeMember(CallModel(), plan_);
      output_ = ComputeLoss(plan_, output, target_);
    }
  }
  Mark(marker::kForwardDone);
  figures.forward = ReadPhase();
  if (job_.protocol != StepProtocol::kLoop) output_.reset();
  if (job_.protocol == StepProtocol::kFresh) {
    for (at::Tensor& input : inputs_) input.reset();
    target_.reset();
  }
  Mark(marker::kStepDone);
  figures.backward = figures.step = ReadPhase();
  figures.reserved = ReservedBytes();
  answer->steps.push_back(figures);
}

void Training::Run(const LossPlan& plan, ProbeAnswer* answer) {
  plan_ = plan;
  LoadModel();
  answer->weights = ReadPhase().allocated;
  if (recorder_ != nullptr) {
    for (const NamedTensor& p : parameters_) recorder_->Tag(TensorRole::kWeight, p.tensor, p.name);
    for (const NamedTensor& b : model_.Buffers()) {
      recorder_->Tag(TensorRole::kBuffer, b.tensor, b.name);
    }
  }
  if (job_.training) {
    Result<std::unique_ptr<Optimizer>> optimizer = MakeOptimizer(job_.optimizer, parameters_);
    TORCH_CHECK(optimizer.ok(), optimizer.status().message());
    optimizer_ = std::move(optimizer.value());
    if (job_.ema) ema_ = StartAverage(parameters_);
  }
  if (job_.protocol == StepProtocol::kMinimal) MakeBatch();
  for (int step = 0; step < probe_.steps; ++step) {
    if (job_.training) {
      TrainStep(answer);
    } else {
      InferStep(answer);
    }
  }
  Mark(marker::kEnd);
}

c10::IValue Training::Try() {
  const at::NoGradGuard no_grad;
  LoadModel();
  MakeBatch();
  const Autocast autocast(job_.precision);
  return CallModel();
}

}  // namespace memmodel::step
