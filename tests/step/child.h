// Runs the real memmodel-trace on the virtual GPU and reads its answers.
#ifndef MEMMODEL_TESTS_STEP_CHILD_H_
#define MEMMODEL_TESTS_STEP_CHILD_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel::testing {

struct Run {
  std::vector<nlohmann::json> answers;  // one a line of standard output
  int exit_code = -1;
};

// Starts `memmodel-trace --job FILE` with these lines; the card is an H200 unless
// `device` names another file of data/devices.
Run RunChild(const std::vector<nlohmann::json>& lines, const std::string& device = "h200");

// The job for a file of models/ or a whole path, with these members set.
nlohmann::json Job(const std::string& model, const nlohmann::json& members = {});
nlohmann::json Probe(int id, int batch, const nlohmann::json& members = {});

// "a32" for a request of 32 units of 512 bytes, "f32" for its release, "" for other events.
std::string EventText(const Event& event);

std::string TemporaryFile(const std::string& name, const std::string& content);

}  // namespace memmodel::testing

#endif  // MEMMODEL_TESTS_STEP_CHILD_H_
