// Asks cuDNN's backend API for the plan of a convolution as torch does
// (aten/src/ATen/native/cudnn/Conv_v8.cpp, benchmark off). Nothing is executed. The
// library is whichever the process has open: the stand-in, or the real one.
#ifndef MEMMODEL_SRC_STEP_CONVOLUTION_PLAN_H_
#define MEMMODEL_SRC_STEP_CONVOLUTION_PLAN_H_

#include <cstdint>
#include <string>

namespace memmodel::cudnn_plans {

struct Plan {
  std::string key;          // docs/cudnn.md
  std::int64_t bytes = -1;  // of the workspace; -1: cuDNN has no plan for it
  std::int64_t engine = -1;
};

// A function of a library that is open; ends the process if there is none.
void* FindFunction(const char* name);
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(FindFunction(name));
}

// The first plan that cuDNN's heuristic offers and finalizes. `handle` is a
// cudnnHandle_t; the stand-in needs none.
Plan Ask(const std::string& key, void* handle = nullptr);

}  // namespace memmodel::cudnn_plans

#endif  // MEMMODEL_SRC_STEP_CONVOLUTION_PLAN_H_
