// From a Program to Instructions.
#include <algorithm>
#include <array>
#include <set>

#include "src/step/pt2_instructions.h"
#include "src/step/pt2_lifetimes.h"
#include "src/step/pt2_operands.h"

namespace memmodel::step {
namespace {

using Kind = Argument::Kind;

constexpr std::string_view kOps = "torch.ops.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

// Checks that torch.export adds. Their conditions hold for the device, dtype and
// batch of the export, and they touch no memory.
constexpr std::array<std::string_view, 6> kChecks = {
    "torch.ops.aten._assert_tensor_metadata.default",
    "torch.ops.aten._assert_scalar.default",
    "torch.ops.aten.sym_constrain_range.default",
    "torch.ops.aten.sym_constrain_range_for_size.default",
    "torch.ops.aten._functional_sym_constrain_range.default",
    "torch.ops.aten._functional_sym_constrain_range_for_size.default",
};

// torch.tensor(...) inside forward; see kFreshTensor.
constexpr std::array<std::string_view, 2> kFresh = {
    "torch.ops.aten.lift_fresh_copy.default",
    "torch.ops.aten.lift_fresh.default",
};

// Operators whose argument follows Module.training.
struct TrainingArgument {
  std::string_view op;
  std::string_view argument;
};
constexpr std::array<TrainingArgument, 18> kTrainingArguments = {{
    {"aten::dropout", "train"},
    {"aten::dropout_", "train"},
    {"aten::feature_dropout", "train"},
    {"aten::feature_dropout_", "train"},
    {"aten::alpha_dropout", "train"},
    {"aten::alpha_dropout_", "train"},
    {"aten::feature_alpha_dropout", "train"},
    {"aten::feature_alpha_dropout_", "train"},
    {"aten::native_dropout", "train"},
    {"aten::batch_norm", "training"},
    {"aten::native_batch_norm", "training"},
    {"aten::lstm", "train"},
    {"aten::gru", "train"},
    {"aten::rnn_tanh", "train"},
    {"aten::rnn_relu", "train"},
    {"aten::rrelu", "training"},
    {"aten::rrelu_", "training"},
    {"aten::scaled_dot_product_attention", "dropout_p"},
}};

template <typename Names>
bool Among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Compiler {
 public:
  Compiler(const Program& program, Lifetime lifetime) : program_(program), lifetime_(lifetime) {}

  Instructions Run() {
    SlotNames names;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const GraphInput& input = program_.inputs[i];
      if (input.kind == InputKind::kUnsupported) {
        throw Refused("its input " + input.value + " is a " + input.target +
                      ", which is not supported");
      }
      const Kind kind = program_.graph.inputs[i].kind;
      if (kind == Kind::kSymbol) {
        throw Refused("its input " + program_.graph.inputs[i].text +
                      " is a number that the caller gives; export it as a constant or as a tensor");
      }
      const bool tensor = kind == Kind::kTensor;
      out_.inputs.push_back(tensor ? NewSlot(names, program_.graph.inputs[i].text) : kNoSlot);
      if (tensor && input.kind == InputKind::kBuffer &&
          input.target.ends_with("num_batches_tracked")) {
        batch_counters_.insert(out_.inputs.back());
      }
    }
    first_value_ = out_.slots;
    AddGraph(program_.graph, names);
    for (const GraphOutput& output : program_.outputs) {
      if (output.kind == OutputKind::kUnsupported || output.kind == OutputKind::kGradient) {
        throw Refused("its output " + output.value.text + " is a " + output.target +
                      ", which is not supported");
      }
      out_.outputs.push_back(MakePlainOperand(output.value, names));
    }
    MarkFillValues();
    AssignReleases(out_, origins_, first_value_, lifetime_);
    return std::move(out_);
  }

 private:
  int NewSlot(SlotNames& names, const std::string& name) {
    names.insert_or_assign(name, out_.slots);
    return out_.slots++;
  }

  void AddGraph(const Graph& graph, SlotNames& names) {
    for (const Node& node : graph.nodes) {
      try {
        AddNode(node, names);
      } catch (const Refused& refused) {
        if (named_) throw;
        named_ = true;
        std::string where;
        if (!node.modules.empty() && !node.modules.back().path.empty()) {
          where = " in " + node.modules.back().path;
        }
        throw Refused(node.target + where + ": " + refused.what());
      }
    }
  }

  void AddNode(const Node& node, SlotNames& names) {
    if (Among(kChecks, node.target)) return;
    if (node.target.starts_with(kHigherOrder)) return AddRegion(node, names);
    Instruction instruction;
    instruction.module = Module(node);
    if (Among(kFresh, node.target)) {
      instruction.kind = Instruction::Kind::kFreshTensor;
      if (node.inputs.empty()) throw Refused("it has no input");
      instruction.operands.push_back(MakePlainOperand(node.inputs[0].value, names));
    } else if (const ScalarFunction function = FindScalarFunction(node.target)) {
      instruction.kind = Instruction::Kind::kScalar;
      instruction.scalar = function;
      for (const NamedArgument& input : node.inputs) {
        instruction.operands.push_back(MakePlainOperand(input.value, names));
      }
    } else {
      AddOperator(node, names, instruction);
    }
    AddResults(node, names, instruction);
    Append(std::move(instruction), node);
  }

  void AddOperator(const Node& node, const SlotNames& names, Instruction& instruction) {
    const std::string& target = node.target;
    const std::size_t space_end = target.find('.', kOps.size());
    const std::size_t name_end = target.rfind('.');
    if (!target.starts_with(kOps) || space_end == std::string::npos || name_end <= space_end) {
      throw Refused("this operation is not known");
    }
    const std::string name = target.substr(kOps.size(), space_end - kOps.size()) +
                             "::" + target.substr(space_end + 1, name_end - space_end - 1);
    std::string overload = target.substr(name_end + 1);
    if (overload == "default") overload.clear();
    // Module code that calls contiguous() before view() loses it in the graph where the
    // tensor was contiguous at the export; on another device it may not be.
    const bool view = name == "aten::view" && overload.empty();
    instruction.op = view ? c10::Dispatcher::singleton().findSchema({"aten::reshape", ""})
                          : c10::Dispatcher::singleton().findSchema({name, overload});
    if (!instruction.op) {
      throw Refused(
          "this operator is not registered in this torch; the library that defines it "
          "cannot be loaded from the archive");
    }
    const c10::FunctionSchema& schema = instruction.op->schema();
    std::size_t taken = 0;
    for (const c10::Argument& wanted : schema.arguments()) {
      const auto given = std::find_if(node.inputs.begin(), node.inputs.end(), [&](const auto& i) {
        return i.name == wanted.name() || (view && i.name == "size" && wanted.name() == "shape");
      });
      Operand operand;
      if (given != node.inputs.end()) {
        ++taken;
        operand = MakeOperand(given->value, wanted, names);
      } else if (wanted.default_value()) {
        operand.constant = *wanted.default_value();
      } else if (wanted.type()->kind() != c10::TypeKind::OptionalType) {
        throw Refused("it lacks its argument " + wanted.name());
      }
      const int index = static_cast<int>(instruction.operands.size());
      for (const TrainingArgument& training : kTrainingArguments) {
        if (training.op == name && training.argument == wanted.name() &&
            operand.kind == Operand::Kind::kConstant) {
          instruction.training_operand = index;
        }
      }
      instruction.operands.push_back(std::move(operand));
    }
    if (taken != node.inputs.size()) {
      throw Refused("it has an argument that this torch does not know; it was exported by torch " +
                    program_.torch_version);
    }
    instruction.counts_batches = name == "aten::add_" && !instruction.operands.empty() &&
                                 batch_counters_.count(instruction.operands[0].slot) != 0;
  }

  void AddResults(const Node& node, SlotNames& names, Instruction& instruction) {
    const std::vector<Argument>* outputs = &node.outputs;
    if (outputs->size() == 1 && outputs->front().kind == Kind::kList) {
      instruction.results_are_list = true;
      outputs = &outputs->front().items;
    }
    for (const Argument& output : *outputs) {
      if (output.kind == Kind::kTensor || output.kind == Kind::kSymbol) {
        instruction.results.push_back(NewSlot(names, output.text));
      } else if (output.kind == Kind::kNone) {
        instruction.results.push_back(kNoSlot);
      } else {
        throw Refused("it gives a list among other results, which is not supported");
      }
    }
    if (instruction.op && !instruction.results_are_list &&
        instruction.results.size() > instruction.op->schema().returns().size()) {
      throw Refused("it has more results than this torch's operator");
    }
  }

  // with torch.no_grad(), with torch.autocast(): the body stands in a graph of its
  // own, whose values the caller's names are bound to.
  void AddRegion(const Node& node, SlotNames& names) {
    const std::string_view op = std::string_view(node.target).substr(kHigherOrder.size());
    Instruction enter;
    std::size_t graph_at = 0;
    const auto argument = [&](std::size_t i, Kind kind) -> const Argument& {
      if (i >= node.inputs.size() || node.inputs[i].value.kind != kind) {
        throw Refused("its argument " + std::to_string(i) + " is not what it should be");
      }
      return node.inputs[i].value;
    };
    if (op == "wrap_with_set_grad_enabled") {
      enter.kind = Instruction::Kind::kEnterGrad;
      enter.flag = argument(0, Kind::kBool).boolean;
      graph_at = 1;
    } else if (op == "wrap_with_autocast") {
      enter.kind = Instruction::Kind::kEnterAutocast;
      Operand device;
      device.kind = Operand::Kind::kDevice;
      device.device_type = argument(0, Kind::kString).text;
      enter.operands.push_back(device);
      if (node.inputs.size() > 1 && node.inputs[1].value.kind == Kind::kScalarType) {
        enter.dtype = static_cast<c10::ScalarType>(node.inputs[1].value.integer);
      }
      enter.flag = argument(2, Kind::kBool).boolean;
      graph_at = 4;  // 3 is cache_enabled, which tracing itself turns off
    } else {
      throw Refused(
          "this higher-order operator (control flow, a delegate, a custom region) is not "
          "run; export the model without it");
    }
    const Graph& graph = *argument(graph_at, Kind::kGraph).graph;
    if (node.inputs.size() - graph_at - 1 != graph.inputs.size()) {
      throw Refused("its body takes another number of arguments");
    }
    if (++depth_ > 16) throw Refused("regions are nested too deeply");
    SlotNames inner;
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const Operand given = MakePlainOperand(node.inputs[graph_at + 1 + i].value, names);
      if (given.kind != Operand::Kind::kSlot) throw Refused("its body is given a plain number");
      inner.insert_or_assign(graph.inputs[i].text, given.slot);
    }
    Append(std::move(enter), node);
    AddGraph(graph, inner);
    Instruction leave;
    leave.kind = Instruction::Kind::kLeave;
    Append(std::move(leave), node);
    --depth_;

    std::vector<const Argument*> outputs;
    for (const Argument& output : node.outputs) {
      if (output.kind != Kind::kList) outputs.push_back(&output);
      for (const Argument& item : output.items) outputs.push_back(&item);
    }
    if (outputs.size() > graph.outputs.size()) throw Refused("its body gives too few results");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->kind == Kind::kNone) continue;
      const Operand result = MakePlainOperand(graph.outputs[i], inner);
      if (result.kind != Operand::Kind::kSlot) throw Refused("its body gives a plain number");
      names.insert_or_assign(outputs[i]->text, result.slot);
    }
  }

  void Append(Instruction instruction, const Node& origin) {
    out_.list.push_back(std::move(instruction));
    origins_.push_back(&origin);
  }

  // "mask[a:b] = 3" is a fresh tensor and fill_ in the graph, and a number without
  // any tensor on the device in Python.
  void MarkFillValues() {
    std::map<int, bool> only_fills;
    for (const Instruction& instruction : out_.list) {
      if (instruction.kind == Instruction::Kind::kFreshTensor && !instruction.results.empty()) {
        only_fills.emplace(instruction.results[0], true);
      }
      const bool fills = instruction.op && instruction.op->schema().name() == "aten::fill_";
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        const auto refuse = [&](const Operand& operand) {
          const auto it = only_fills.find(operand.slot);
          if (it != only_fills.end()) it->second = false;
        };
        if (!fills || i != 1) refuse(instruction.operands[i]);
        for (const Operand& item : instruction.operands[i].items) refuse(item);
      }
    }
    for (const Operand& output : out_.outputs) only_fills.erase(output.slot);
    for (Instruction& instruction : out_.list) {
      if (instruction.kind != Instruction::Kind::kFreshTensor || instruction.results.empty())
        continue;
      const auto it = only_fills.find(instruction.results[0]);
      instruction.flag = it != only_fills.end() && it->second;
    }
  }

  int Module(const Node& node) {
    if (node.modules.empty()) return -1;
    const ModuleCall& call = node.modules.back();
    const auto [it, added] =
        module_index_.try_emplace({call.path, call.type}, static_cast<int>(out_.modules.size()));
    if (added) {
      const std::size_t dot = call.type.rfind('.');
      out_.modules.push_back(
          {call.path, dot == std::string::npos ? call.type : call.type.substr(dot + 1)});
    }
    return it->second;
  }

  const Program& program_;
  const Lifetime lifetime_;
  Instructions out_;
  int first_value_ = 0;
  int depth_ = 0;
  bool named_ = false;  // the error says already which node it is about
  std::set<int> batch_counters_;
  std::map<std::pair<std::string, std::string>, int> module_index_;
  std::vector<const Node*> origins_;  // of each instruction
};

}  // namespace

Result<Instructions> CompileProgram(const Program& program, Lifetime lifetime,
                                    const std::string& name) {
  try {
    return Compiler(program, lifetime).Run();
  } catch (const Refused& refused) {
    return Status(StatusCode::kUnknown, name + ": " + refused.what());
  } catch (const std::exception& error) {
    return Status::BadInput(name + ": " + error.what());
  }
}

}  // namespace memmodel::step
