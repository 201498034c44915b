// A network from a torch.export archive (.pt2); docs/pt2.md.
#ifndef MEMMODEL_SRC_STEP_EXPORTED_PROGRAM_H_
#define MEMMODEL_SRC_STEP_EXPORTED_PROGRAM_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "src/step/model.h"
#include "src/step/pt2_archive.h"
#include "src/step/pt2_interpreter.h"
#include "src/step/pt2_module_tree.h"
#include "src/step/pt2_symbolic.h"

namespace memmodel::step {

class ExportedProgramModel : public Model {
 public:
  // Makes the model of what an archive holds. `path` stands in messages.
  static Result<std::unique_ptr<Model>> Make(Pt2Archive archive, Lifetime lifetime,
                                             const std::string& path);

  [[nodiscard]] std::vector<NamedTensor> Parameters() const override;
  [[nodiscard]] std::vector<NamedTensor> Buffers() const override;
  void To(at::Device device) override;
  void ToChannelsLast() override;
  void ToDtype(at::ScalarType dtype) override;
  // Sets the training argument of dropout, batch norm and the like, as Module.train
  // and eval would have before the export. What else depends on Module.training
  // (stochastic depth, say) stays as it was exported. A graph exported in eval mode
  // is trained as it is.
  void SetTraining(bool training) override { interpreter_.SetTraining(training); }
  // Expects the graph's tensor inputs, in order.
  c10::IValue Forward(const std::vector<at::Tensor>& inputs) override;
  [[nodiscard]] std::vector<InputSpec> StoredInputs() const override;
  [[nodiscard]] std::optional<std::int64_t> FixedBatch() const override;
  [[nodiscard]] std::string Kind() const override { return "exported_program"; }

 private:
  struct State {
    std::string name;
    InputKind kind = InputKind::kParameter;
    std::vector<int> slots;  // several: names for one tensor
    at::Tensor tensor;
    std::vector<std::int64_t> strides;  // on a device, if not contiguous
    bool has_values = false;
    bool stays_on_cpu = false;  // torch.tensor(...) of forward, copied at each run
  };
  struct UserInput {
    std::string name;
    int slot = kNoSlot;
    TensorMeta meta;
  };
  // A recurrent layer whose weights cuDNN wants in one block.
  struct Recurrent {
    std::string module;
    std::vector<int> weights;  // indices into states_
    std::int64_t mode = 0;     // cudnnRNNMode_t
    std::int64_t layers = 1;
    bool biases = true;
    bool batch_first = false;
    bool bidirectional = false;
  };

  explicit ExportedProgramModel(Instructions instructions)
      : interpreter_(std::move(instructions)) {}

  Status TakeInputs(Pt2Archive& archive, const std::string& path);
  Status TakeOrder(const std::string& path);
  void FindFreshConstants();
  void FindRecurrentLayers();
  // Calls `change` for each tensor in Module._apply's order, and joins the weights
  // of recurrent layers again where it ends their module.
  template <typename Change>
  void Apply(Change change);
  void Replace(State& state, at::Tensor tensor);
  void JoinWeights(const Recurrent& layer);
  void CheckInputs(const std::vector<at::Tensor>& inputs) const;

  Interpreter interpreter_;
  Program program_;  // without its nodes
  std::vector<State> states_;
  std::vector<ApplyStep> order_;
  std::vector<UserInput> inputs_;
  std::vector<Recurrent> recurrent_;
  std::string exported_device_ = "cpu";
  at::Device device_ = at::kCPU;
  bool channels_last_ = false;  // asked for before the tensors were made on a device
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_EXPORTED_PROGRAM_H_
