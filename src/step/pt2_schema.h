// What a torch.export archive says, as plain structs: the part of
// torch/_export/serde/schema.py that running a graph needs.
#ifndef MEMMODEL_SRC_STEP_PT2_SCHEMA_H_
#define MEMMODEL_SRC_STEP_PT2_SCHEMA_H_

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

// The versions of the schema that are known: 8.0 came with torch 2.5, 8.20 with
// torch 2.14. Minor versions are compatible by PyTorch's rule; a later minor
// version is read, another major version is refused.
inline constexpr int kSchemaMajor = 8;

// A whole number or an expression of symbols (pt2_symbolic.h).
struct Dimension {
  std::optional<std::int64_t> value;
  std::string expression;            // "" if `value` is known
  std::optional<std::int64_t> hint;  // what it was when the graph was exported
};

struct TensorMeta {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<Dimension> sizes;
  std::vector<Dimension> strides;
  Dimension storage_offset;
  bool requires_grad = false;
  std::string device_type;  // "cpu", "cuda"
};

struct Graph;

struct Argument {
  enum class Kind {
    kNone,
    kTensor,  // `text` names a value
    kSymbol,  // `text` names a number that the graph computes
    kInt,
    kFloat,
    kBool,
    kString,
    kComplex,       // real, imaginary
    kScalarType,    // c10's number in `integer`
    kLayout,        // c10's number in `integer`
    kMemoryFormat,  // c10's number in `integer`
    kDevice,        // `text` is its type, `integer` its index or -1
    kList,          // `items`
    kGraph,         // `graph`
    kUnsupported,   // `text` is the schema's name of it, "as_custom_obj"
  };
  Kind kind = Kind::kNone;
  std::string text;
  std::int64_t integer = 0;
  bool boolean = false;
  double real = 0;
  double imaginary = 0;
  std::vector<Argument> items;
  std::shared_ptr<const Graph> graph;
};

struct NamedArgument {
  std::string name;  // the operator's name of it; "" in higher-order operators
  Argument value;
};

// A module whose forward a node was traced in.
struct ModuleCall {
  std::string key;   // distinguishes two calls of one module: "L__self___relu@1"
  std::string path;  // "layer1.0.relu"; "" is the root
  std::string type;  // "torch.nn.modules.activation.ReLU"
};

struct Node {
  std::string name;
  std::string target;  // "torch.ops.aten.conv2d.default", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::vector<ModuleCall> modules;  // outermost first; empty if not known
  std::string stack_trace;          // Python's text, outermost function first
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta, std::less<>> tensors;  // of `inputs` only
};

enum class InputKind { kUser, kParameter, kBuffer, kConstant, kNumber, kUnsupported };

struct GraphInput {
  InputKind kind = InputKind::kUnsupported;
  std::string value;   // its name in the graph; "" if it is a plain None or number
  std::string target;  // parameter, buffer or constant name; kUnsupported: what it is
  bool persistent = true;
};

enum class OutputKind { kUser, kLoss, kBufferMutation, kInputMutation, kGradient, kUnsupported };

struct GraphOutput {
  OutputKind kind = OutputKind::kUnsupported;
  Argument value;
  std::string target;  // what is mutated
};

struct RangeConstraint {
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
};

struct Program {
  int schema_major = 0;
  int schema_minor = 0;
  std::string torch_version;
  Graph graph;
  std::vector<GraphInput> inputs;  // as many as graph.inputs
  std::vector<GraphOutput> outputs;
  std::vector<std::string> modules;         // in the order of named_modules(); "" is the root
  std::vector<std::string> argument_names;  // of forward; may be empty
  std::string output_tree;                  // the root's out_spec: a pytree as JSON
  std::map<std::string, RangeConstraint, std::less<>> ranges;
};

// Reads model.json. `name` stands in messages.
Result<Program> ParseProgram(std::string_view json, const std::string& name);

// One entry of model_weights_config.json or model_constants_config.json.
struct Payload {
  std::string record;  // "weight_3"
  bool pickled = false;
  std::optional<TensorMeta> meta;  // absent: not a tensor
};
// In the order of their names.
Result<std::vector<std::pair<std::string, Payload>>> ParsePayloads(std::string_view json,
                                                                   const std::string& name);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_SCHEMA_H_
