// The training step, as a Python script would make it.
#ifndef MEMMODEL_SRC_STEP_TRAINING_H_
#define MEMMODEL_SRC_STEP_TRAINING_H_

#include <memory>
#include <vector>

#include "memmodel/status.h"
#include "src/step/answer.h"
#include "src/step/grad_scaler.h"
#include "src/step/job.h"
#include "src/step/loss.h"
#include "src/step/model.h"
#include "src/step/optimizer.h"
#include "src/tracer/recorder.h"

namespace memmodel::step {

// Inputs of `batch` samples on the GPU. On a virtual GPU their values are unknown,
// on a real one zero.
std::vector<at::Tensor> MakeInputs(const std::vector<InputSpec>& specs, std::int64_t batch,
                                   bool virtual_device);

// Lets the model compile what it can before probes are forked.
void PrepareModel(const Job& job, Model& model);

// Runs steps of one job. What lives how long is docs/training_step.md; the order of
// the member variables' assignments is what the measured scripts do.
class Training {
 public:
  // `recorder` may be null. The model is on the CPU.
  Training(const Job& job, const Probe& probe, std::vector<InputSpec> inputs, Model& model,
           tracer::Recorder* recorder);

  // Throws what LibTorch throws. `plan` is the loss found by a trial.
  void Run(const LossPlan& plan, ProbeAnswer* answer);

  // Loads the model and runs forward once, without gradients, to see its output.
  c10::IValue Try();

 private:
  void LoadModel();
  void MakeBatch();
  c10::IValue CallModel();
  void Forward();  // output_ and loss_ from inputs_
  void Backward();
  void OptimizerStep();
  void TrainStep(ProbeAnswer* answer);
  void InferStep(ProbeAnswer* answer);
  void Mark(std::string_view text);
  void TagAll();

  const Job& job_;
  const Probe& probe_;
  std::vector<InputSpec> specs_;
  Model& model_;
  tracer::Recorder* recorder_;
  LossPlan plan_;
  std::unique_ptr<Optimizer> optimizer_;
  GradScaler scaler_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> ema_;

  std::vector<at::Tensor> inputs_;
  at::Tensor target_;
  at::Tensor output_;
  at::Tensor loss_;
  bool tagged_ = false;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_TRAINING_H_
