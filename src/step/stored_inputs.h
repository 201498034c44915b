// Input shapes stored in a TorchScript file by scripts/export_model.py.
#ifndef MEMMODEL_SRC_STEP_STORED_INPUTS_H_
#define MEMMODEL_SRC_STEP_STORED_INPUTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"
#include "src/step/model.h"

namespace memmodel::step {

// Name of the archive's extra file. It holds a JSON list, one object an input, the
// shape without its batch dimension:
//   [{"name": "x", "shape": [3, 224, 224], "dtype": "float32"}]
inline constexpr std::string_view kStoredInputsFile = "memmodel_inputs.json";

// "" gives no inputs.
Result<std::vector<InputSpec>> ParseStoredInputs(const std::string& text);

// The same list on one line, without a newline.
std::string FormatInputs(const std::vector<InputSpec>& inputs);

// "float32", "int64", ...: torch's names without "torch.".
std::optional<at::ScalarType> ParseDtype(std::string_view name);
std::string DtypeName(at::ScalarType dtype);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_STORED_INPUTS_H_
