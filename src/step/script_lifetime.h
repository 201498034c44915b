// How long values live: TorchScript's rule made Python's.
#ifndef MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_
#define MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>

namespace memmodel::step {

// TorchScript's interpreter drops a value after its last use. Python holds arguments
// until the call returns, and a variable until it is assigned again or its function
// returns. This adds to all graphs of `module` uses that make up the difference.
// Call it once, before anything runs.
void KeepAsPythonDoes(const torch::jit::Module& module);

// Whether `value` is one of a graph whose values scripts/export_model.py watched.
bool IsWatched(const torch::jit::Value* value);

// What networks kept for their next forward, such as caches. In the thread that ran them.
void DropWhatNetworksKeep();

// What Python holds while a forward runs, or a part of one is run again: nothing at first;
// what is left at the end is let go. In the thread that made it.
class HeldValues {
 public:
  HeldValues();
  ~HeldValues();
  HeldValues(const HeldValues&) = delete;
  HeldValues& operator=(const HeldValues&) = delete;

 private:
  std::map<std::int64_t, at::Tensor> before_;  // of the forward that this one is in
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_SCRIPT_LIFETIME_H_
