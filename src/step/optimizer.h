// Optimizers with the memory behaviour of Python's torch.optim.
//
// LibTorch's own torch::optim updates one tensor after another; Python's default
// on CUDA updates lists (foreach), with temporaries as large as the weights. Each
// class here makes the same at:: calls in the same order as the Python file it
// names, and lets temporaries live as long as the Python variables do.
#ifndef MEMMODEL_SRC_STEP_OPTIMIZER_H_
#define MEMMODEL_SRC_STEP_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memmodel/status.h"
#include "src/step/job.h"
#include "src/step/model.h"

namespace memmodel::step {

// A Python list or tuple of tensors. CPython releases the items of one from the last
// to the first (list_dealloc and tupledealloc in Objects/).
class TensorList : public std::vector<at::Tensor> {
 public:
  using std::vector<at::Tensor>::vector;
  TensorList() = default;
  TensorList(std::vector<at::Tensor>&& list) noexcept  // what at::_foreach_* return
      : std::vector<at::Tensor>(std::move(list)) {}
  TensorList(const TensorList&) = default;
  TensorList(TensorList&& other) noexcept = default;
  // Python makes the new value before the old one goes.
  TensorList& operator=(TensorList other) noexcept {
    swap(other);
    return *this;
  }
  ~TensorList() { clear(); }
  void clear() noexcept {
    while (!empty()) pop_back();
  }
};

// Which implementation runs: torch.optim's flags `foreach` and `fused`.
enum class Implementation { kForeach, kSingleTensor, kFused };

// Reads the options of one OptimizerSpec; what was asked for is remembered, so that
// an option that nobody read is an error.
class OptimizerOptions {
 public:
  explicit OptimizerOptions(const OptimizerSpec& spec) : spec_(spec) {}

  double Number(const std::string& name, double default_value);
  bool Flag(const std::string& name, bool default_value);
  // Entry `index` of a list option such as betas.
  double Entry(const std::string& name, std::size_t index, double default_value);
  // `has_fused`, `foreach_by_default`: what the optimizer's Python class does.
  Implementation ReadImplementation(bool has_fused, bool foreach_by_default = true);

  // The first value of a wrong type, or the first unknown option with the known ones.
  [[nodiscard]] Status status() const;

 private:
  const OptionValue* Find(const std::string& name);
  void WrongType(const std::string& name, const char* expected);

  const OptimizerSpec& spec_;
  std::set<std::string> known_;
  Status status_;
};

class Optimizer {
 public:
  Optimizer(std::vector<NamedTensor> parameters, std::vector<std::string> slots);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void ZeroGrad();  // set_to_none=True
  void Step();      // parameters without gradient are passed over

  // Fused implementations take GradScaler's tensors into the kernel; the caller
  // sets them before Step and clears them after (undefined tensors).
  [[nodiscard]] virtual bool TakesScaler() const { return false; }
  void SetScaler(at::Tensor grad_scale, at::Tensor found_inf);

  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  // "exp_avg.layer1.0.conv1.weight", for every state tensor that exists.
  [[nodiscard]] std::vector<NamedTensor> State() const;

 protected:
  // Parameters that take part in this step, with their gradients.
  struct Active {
    std::vector<std::size_t> index;  // into parameters()
    TensorList params;
    TensorList grads;
  };

  virtual void Update(const Active& active) = 0;

  // State tensor `slot` of parameter `index`; undefined until it is set.
  at::Tensor& State(std::size_t slot, std::size_t index) { return state_[slot][index]; }
  TensorList Gather(std::size_t slot, const std::vector<std::size_t>& index) const;
  [[nodiscard]] std::optional<at::Tensor> grad_scale() const;
  [[nodiscard]] std::optional<at::Tensor> found_inf() const;

  // Optimizer._group_tensors_by_device_and_dtype: one group a device and dtype, in
  // Python's order.
  static std::vector<Active> Groups(const Active& active);
  // Adds one to each step counter as the foreach implementations do.
  static void AdvanceSteps(TensorList& steps);
  // The step counter of a new parameter: on the CPU unless it must be on the device.
  static at::Tensor NewStep(const at::Tensor& parameter, bool on_device);

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<std::string> slots_;
  std::vector<TensorList> state_;  // by slot, then parameter
  at::Tensor grad_scale_;
  at::Tensor found_inf_;
};

// Fails for unknown names and options, naming the known ones. Without parameters it
// serves as a check of the spec.
Result<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec,
                                                 std::vector<NamedTensor> parameters);

// One maker a family file; each reads its options and builds.
using OptimizerMaker = std::unique_ptr<Optimizer> (*)(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeSgd(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdam(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdamW(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeRmsprop(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdagrad(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeNAdam(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeRAdam(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdamax(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdafactor(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeMuon(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAdadelta(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeAsgd(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeRprop(OptimizerOptions&, std::vector<NamedTensor>);
std::unique_ptr<Optimizer> MakeCustom(OptimizerOptions&, std::vector<NamedTensor>);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_OPTIMIZER_H_
