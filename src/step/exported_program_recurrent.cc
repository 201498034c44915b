// Recurrent layers of exported programs: Python's RNNBase joins its weights into one
// block whenever the module moves, which is an allocation of its own.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <set>

#include "src/step/exported_program.h"

namespace memmodel::step {

void ExportedProgramModel::FindRecurrentLayers() {
  std::map<int, int> parameter_at;  // slot to state
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].kind != InputKind::kParameter) continue;
    for (const int slot : states_[i].slots) parameter_at.emplace(slot, static_cast<int>(i));
  }
  std::set<std::string> done;
  // cudnnRNNMode_t, as torch/backends/cudnn/rnn.py maps it.
  const std::array<std::pair<std::string_view, std::int64_t>, 4> modes = {
      {{"aten::rnn_relu", 0}, {"aten::rnn_tanh", 1}, {"aten::lstm", 2}, {"aten::gru", 3}}};
  for (const Instruction& instruction : interpreter_.instructions().list) {
    if (!instruction.op) continue;
    const c10::FunctionSchema& schema = instruction.op->schema();
    const auto mode = std::find_if(modes.begin(), modes.end(),
                                   [&](const auto& m) { return m.first == schema.name(); });
    if (mode == modes.end()) continue;
    Recurrent layer;
    layer.mode = mode->second;
    bool all_parameters = true;
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const std::string& name = schema.arguments()[i].name();
      const Operand& operand = instruction.operands[i];
      if (name == "params") {
        for (const Operand& item : operand.items) {
          const auto it = parameter_at.find(item.slot);
          if (it == parameter_at.end()) {
            all_parameters = false;
          } else {
            layer.weights.push_back(it->second);
          }
        }
      } else if (name == "num_layers" && operand.constant.isInt()) {
        layer.layers = operand.constant.toInt();
      } else if (operand.constant.isBool()) {
        if (name == "has_biases") layer.biases = operand.constant.toBool();
        if (name == "bidirectional") layer.bidirectional = operand.constant.toBool();
        if (name == "batch_first") layer.batch_first = operand.constant.toBool();
      }
    }
    if (!all_parameters || layer.weights.size() < 2) continue;
    const std::string& first = states_[static_cast<std::size_t>(layer.weights[0])].name;
    const std::size_t dot = first.rfind('.');
    layer.module = dot == std::string::npos ? "" : first.substr(0, dot);
    if (done.insert(layer.module).second) recurrent_.push_back(std::move(layer));
  }
}

// RNNBase.flatten_parameters (torch 2.11, torch/nn/modules/rnn.py).
void ExportedProgramModel::JoinWeights(const Recurrent& layer) {
  std::vector<at::Tensor> weights;
  std::set<const void*> addresses;
  for (const int index : layer.weights) {
    const at::Tensor& weight = states_[static_cast<std::size_t>(index)].tensor;
    const at::ScalarType dtype = weight.scalar_type();
    if (!weight.is_cuda() || weight.dim() == 0 ||
        (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kDouble)) {
      return;
    }
    if (!weights.empty() && dtype != weights[0].scalar_type()) return;
    if (!addresses.insert(weight.data_ptr()).second) return;
    weights.push_back(weight);
  }
  const std::int64_t gates = layer.mode == 2 ? 4 : layer.mode == 3 ? 3 : 1;
  const std::int64_t input_size = weights[0].size(1);
  const std::int64_t hidden_size = weights[1].size(0) / gates;
  const std::int64_t output_size = weights[1].size(1);
  const std::int64_t proj_size = output_size == hidden_size ? 0 : output_size;
  const std::int64_t per_layer = (layer.biases ? 4 : 2) + (proj_size > 0 ? 1 : 0);
  at::_cudnn_rnn_flatten_weight(weights, per_layer, input_size, layer.mode, hidden_size, proj_size,
                                layer.layers, layer.batch_first, layer.bidirectional);
}

}  // namespace memmodel::step
