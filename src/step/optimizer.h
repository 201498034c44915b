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
  Implementation ReadImplementation(bool has_fused, bool foreach_by_default);

  // The first value of a wrong type, or the first unknown option with the known ones.
  [[nodiscard]] Status status() const;

 private:
  const OptionValue* Find(const std::string& name);
  void WrongType(const std::string& name, const char* expected);

  const OptimizerSpec& spec_;
  std::set<std::string> known_;
  Status status_;
};

// What the Python classes have in common, with the defaults of one of them. Options
// that a class does not have are not read.
struct OptimizerTraits {
  double lr = 1e-3;
  double weight_decay = 0;
  bool has_weight_decay = true;
  bool has_maximize = true;
  bool has_capturable = true;
  bool has_fused = false;
  bool foreach_by_default = true;
};

class Optimizer {
 public:
  Optimizer(OptimizerOptions& options, const OptimizerTraits& traits,
            std::vector<NamedTensor> parameters, std::vector<std::string> slots);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void ZeroGrad();  // set_to_none=True
  void Step();      // parameters without gradient are passed over

  // Fused implementations take GradScaler's tensors into the kernel; the caller
  // sets them before Step and clears them after (undefined tensors).
  [[nodiscard]] bool TakesScaler() const { return implementation_ == Implementation::kFused; }
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

  // _init_group: the state of parameter k, which takes part for the first time.
  virtual void Start(std::size_t k, const at::Tensor& param, const at::Tensor& grad) = 0;
  // The functions _multi_tensor_NAME, _single_tensor_NAME and _fused_NAME. Variables
  // that live from one turn of their loops to the next are declared before the loop, in
  // the opposite order of Python's, which releases them first to last.
  virtual void Foreach(const Active& active) = 0;
  virtual void SingleTensor(const Active& active) = 0;
  virtual void Fused(const Active& active);

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
  // The step counter of a new parameter: on the CPU unless capturable or fused.
  [[nodiscard]] at::Tensor NewStep(const at::Tensor& parameter) const;
  // The foreach implementations' first lines on gradients: negated if they are to be
  // maximised, in place from then on.
  void Negate(TensorList& grads) const;
  void Decay(TensorList& grads, const TensorList& params) const;
  // `grad = grads[i]; grad = grad if not maximize else -grad`, or the same in one
  // statement, which makes the new value before the variable's old one goes.
  void Negate(at::Tensor& variable, const at::Tensor& grad, bool one_statement) const;
  void Decay(at::Tensor& variable, const at::Tensor& param) const;
  // number / tensor: Tensor.__rtruediv__ in torch/_tensor.py.
  static at::Tensor Divide(double number, const at::Tensor& tensor);

  double lr_;
  double weight_decay_;
  bool maximize_;
  bool capturable_;
  Implementation implementation_;

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<std::string> slots_;
  std::vector<TensorList> state_;  // by slot, then parameter
  std::vector<bool> started_;
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
