// A network as the training step sees it, whatever file it came from.
#ifndef MEMMODEL_SRC_STEP_MODEL_H_
#define MEMMODEL_SRC_STEP_MODEL_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

// One input without its batch dimension, which stands first.
struct InputSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype = at::kFloat;
};

struct NamedTensor {
  std::string name;  // "layer1.0.conv1.weight"
  at::Tensor tensor;
};

class Model {
 public:
  virtual ~Model() = default;

  // In the order in which Python's Module.parameters() gives them.
  [[nodiscard]] virtual std::vector<NamedTensor> Parameters() const = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> Buffers() const = 0;

  // Moves (or, for tensors without data, makes) all parameters and buffers on
  // `device`, in the order of Python's Module.to. Throws c10::Error.
  virtual void To(at::Device device) = 0;
  virtual void ToChannelsLast() = 0;
  virtual void ToDtype(at::ScalarType dtype) = 0;  // floating-point tensors only
  virtual void SetTraining(bool training) = 0;

  // Runs modules whose paths match `glob` under activation checkpointing, if calls of
  // modules can be run again.
  virtual Status Checkpoint(const std::string& glob) {
    return Status::InvalidArgument("--checkpoint " + glob +
                                   ": the modules of a torch.export graph are no calls that could "
                                   "be run again; give a TorchScript file (.pt) of the network");
  }

  // Does what every run of forward would do first, if that needs no device. For the
  // caller's autograd and autocast state.
  virtual void Prepare() {}

  // Runs forward under the caller's autograd and autocast state. Throws c10::Error.
  virtual c10::IValue Forward(const std::vector<at::Tensor>& inputs) = 0;

  // What the file says about its inputs; empty if it says nothing.
  [[nodiscard]] virtual std::vector<InputSpec> StoredInputs() const { return {}; }
  // Guesses for inputs about which neither the file nor the user says anything, the
  // likeliest first; each is a full list of inputs. May leave traces in the model that
  // change how it runs: call it in a process that runs nothing.
  [[nodiscard]] virtual std::vector<std::vector<InputSpec>> InputCandidates() const { return {}; }
  // Inputs that forward needs; 0 if that is not known.
  [[nodiscard]] virtual std::size_t InputCount() const { return 0; }
  // The only batch size that the file's graph accepts, if it is fixed.
  [[nodiscard]] virtual std::optional<std::int64_t> FixedBatch() const { return {}; }
  [[nodiscard]] virtual std::string Kind() const = 0;  // "torchscript", "exported_program"
};

// Each loads its kind of file onto the CPU; data of large tensors is not read.
struct Archive;  // archive.h
Result<std::unique_ptr<Model>> LoadTorchScript(const std::string& path, const Archive& archive);
Result<std::unique_ptr<Model>> LoadExportedProgram(const std::string& path);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_MODEL_H_
