// Asks cuDNN's backend API for the plan of a convolution as torch does
// (aten/src/ATen/native/cudnn/Conv_v8.cpp, benchmark off), through the stand-ins.
#ifndef MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_
#define MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace memmodel::cudnn_plans {

struct Plan {
  std::string key;          // as in a calibrated table, see docs/cudnn.md
  std::int64_t bytes = -1;  // of the workspace; -1: cuDNN has no plan for it
  std::int64_t engine = -1;
};

// The lines `KEY BYTES ENGINE` of a file; those that begin with # are left out.
std::vector<Plan> ReadPlans(const std::string& path);

// Opens all stand-ins in `folder`; "" or what was wrong. They read their
// environment once: a process can ask about one device.
std::string OpenStandIns(const std::string& folder);

// A function of an opened stand-in; ends the process if it is not there.
void* FindFunction(const char* name);
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(FindFunction(name));
}

// The first plan that cuDNN's heuristic offers and finalizes.
Plan Ask(const std::string& key);

using Environment = std::map<std::string, std::string>;
// What `body` gives in a process of its own with `environment` and the stand-ins
// open; "died: STATUS" if that process did not end well.
std::string InProcess(const std::string& folder, const Environment& environment,
                      const std::function<std::string()>& body);

}  // namespace memmodel::cudnn_plans

#endif  // MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_
