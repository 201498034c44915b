// The stand-ins in a process of their own, to ask them for plans, and files of plans.
#ifndef MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_
#define MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/step/convolution_plan.h"

namespace memmodel::cudnn_plans {

// The lines `KEY BYTES ENGINE` of a file; those that begin with # are left out.
std::vector<Plan> ReadPlans(const std::string& path);

// Opens all stand-ins in `folder`; "" or what was wrong. They read their
// environment once: a process can ask about one device.
std::string OpenStandIns(const std::string& folder);

using Environment = std::map<std::string, std::string>;
// What `body` gives in a process of its own with `environment` and the stand-ins
// open; "died: STATUS" if that process did not end well.
std::string InProcess(const std::string& folder, const Environment& environment,
                      const std::function<std::string()>& body);

}  // namespace memmodel::cudnn_plans

#endif  // MEMMODEL_TESTS_CUDNN_CONVOLUTION_PLAN_H_
