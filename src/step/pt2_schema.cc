// Reads model.json and the payload tables into the structs of pt2_schema.h.
#include "src/step/pt2_schema.h"

#include <set>

#include "src/step/pt2_json.h"

namespace memmodel::step {
namespace pt2 {
namespace {

using Kind = Argument::Kind;

// "key,path,type;key,path,type": commas inside brackets belong to a part
// (serialize.py, export_nn_module_stack and metadata_split).
std::vector<ModuleCall> ModulesFrom(const std::string& text) {
  std::vector<ModuleCall> calls;
  std::string parts[3];
  int part = 0;
  int brackets = 0;
  const auto finish = [&] {
    if (part == 2 && parts[2].find("empty_nn_module_stack") == std::string::npos) {
      calls.push_back({parts[0], parts[1], parts[2]});
    }
    for (std::string& p : parts) p.clear();
    part = 0;
  };
  for (const char c : text) {
    if (c == ';') {
      finish();
      continue;
    }
    if (c == '(' || c == '[') ++brackets;
    if (c == ')' || c == ']') --brackets;
    if (c == ',' && brackets == 0 && part < 2) {
      ++part;
    } else {
      parts[part] += c;
    }
  }
  finish();
  return calls;
}

Node NodeFrom(const Json& value, int depth) {
  Node node;
  node.target = Text(value, "target");
  if (Find(value, "name") != nullptr) node.name = Text(value, "name");
  for (const Json& input : Elements(At(value, "inputs"), "inputs")) {
    node.inputs.push_back({Text(input, "name"), ArgumentFrom(At(input, "arg"), depth)});
  }
  for (const Json& output : Elements(At(value, "outputs"), "outputs")) {
    node.outputs.push_back(ArgumentFrom(output, depth));
  }
  const Json* metadata = Find(value, "metadata");
  if (metadata != nullptr && metadata->is_object()) {
    if (Find(*metadata, "nn_module_stack") != nullptr) {
      node.modules = ModulesFrom(Text(*metadata, "nn_module_stack"));
    }
    if (Find(*metadata, "stack_trace") != nullptr)
      node.stack_trace = Text(*metadata, "stack_trace");
  }
  return node;
}

}  // namespace

Graph GraphFrom(const Json& value, int depth) {
  if (depth > kMaxNesting) throw Malformed("graphs are nested too deeply");
  Graph graph;
  std::set<std::string, std::less<>> names;
  for (const Json& input : Elements(At(value, "inputs"), "inputs")) {
    graph.inputs.push_back(ArgumentFrom(input, depth));
    if (graph.inputs.back().kind == Kind::kTensor) names.insert(graph.inputs.back().text);
  }
  for (const Json& output : Elements(At(value, "outputs"), "outputs")) {
    graph.outputs.push_back(ArgumentFrom(output, depth));
  }
  for (const Json& node : Elements(At(value, "nodes"), "nodes")) {
    graph.nodes.push_back(NodeFrom(node, depth));
  }
  const Json& tensors = At(value, "tensor_values");
  for (auto it = tensors.begin(); it != tensors.end(); ++it) {
    if (names.count(it.key()) != 0) graph.tensors.emplace(it.key(), TensorMetaFrom(it.value()));
  }
  return graph;
}

namespace {

GraphInput GraphInputFrom(const Json& spec) {
  const auto [name, content] = Case(spec);
  GraphInput input;
  const auto set = [&](InputKind kind, const char* target) {
    input.kind = kind;
    input.value = Text(At(*content, "arg"), "name");
    input.target = Text(*content, target);
  };
  if (name == "user_input") {
    const Argument argument = ArgumentFrom(At(*content, "arg"), 0);
    input.kind = argument.kind == Kind::kTensor ? InputKind::kUser : InputKind::kNumber;
    input.value = argument.text;
  } else if (name == "parameter") {
    set(InputKind::kParameter, "parameter_name");
  } else if (name == "buffer") {
    set(InputKind::kBuffer, "buffer_name");
    if (const Json* persistent = Find(*content, "persistent")) input.persistent = Flag(*persistent);
  } else if (name == "tensor_constant") {
    set(InputKind::kConstant, "tensor_constant_name");
  } else if (name == "constant_input") {
    input.kind = InputKind::kNumber;
    input.value = Text(*content, "name");
  } else {  // custom_obj, token
    input.target = name;
  }
  return input;
}

GraphOutput GraphOutputFrom(const Json& spec) {
  const auto [name, content] = Case(spec);
  GraphOutput output;
  const Json& argument = At(*content, "arg");
  if (name == "user_output") {
    output.kind = OutputKind::kUser;
    output.value = ArgumentFrom(argument, 0);
    return output;
  }
  output.value.kind = Kind::kTensor;
  output.value.text = Text(argument, "name");
  if (name == "loss_output") {
    output.kind = OutputKind::kLoss;
  } else if (name == "buffer_mutation") {
    output.kind = OutputKind::kBufferMutation;
    output.target = Text(*content, "buffer_name");
  } else if (name == "user_input_mutation") {
    output.kind = OutputKind::kInputMutation;
    output.target = Text(*content, "user_input_name");
  } else if (name == "gradient_to_parameter" || name == "gradient_to_user_input") {
    output.kind = OutputKind::kGradient;
    output.target = name;
  } else {  // token, parameter_mutation
    output.target = name;
  }
  return output;
}

void ReadModuleCalls(const Json& calls, Program& program) {
  for (const Json& call : Elements(calls, "modules")) {
    const std::string path = Text(call, "fqn");
    program.modules.push_back(path);
    const Json* signature = Find(call, "signature");
    if (!path.empty() || signature == nullptr) continue;
    if (Find(*signature, "out_spec") != nullptr) program.output_tree = Text(*signature, "out_spec");
    if (const Json* names = Find(*signature, "forward_arg_names")) {
      for (const Json& name : Elements(*names, "names")) {
        program.argument_names.push_back(name.get<std::string>());
      }
    }
  }
}

// Python's json module writes Infinity and NaN for floats, which JSON does not
// know; torch quotes them since 2.6. Quotes them in `text`, outside of strings.
std::string QuoteSpecialFloats(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\' && i + 1 < text.size()) {
      out += text[i++];
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (text.substr(i, word.size()) != word) continue;
        out.append("\"").append(word).append("\"");
        i += word.size();
        break;
      }
      if (i >= text.size()) break;
    }
    out += text[i];
  }
  return out;
}

Json ParseJson(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    json = Json::parse(QuoteSpecialFloats(text), nullptr, /*allow_exceptions=*/false);
  }
  if (json.is_discarded()) throw Malformed("not JSON");
  return json;
}

}  // namespace
}  // namespace pt2

using namespace pt2;  // NOLINT(google-build-using-namespace)

Result<Program> ParseProgram(std::string_view text, const std::string& name) {
  try {
    const Json json = ParseJson(text);
    Program program;
    const Json& version = At(json, "schema_version");
    program.schema_major = static_cast<int>(Whole(At(version, "major")));
    program.schema_minor = static_cast<int>(Whole(At(version, "minor")));
    if (Find(json, "torch_version") != nullptr) program.torch_version = Text(json, "torch_version");
    if (program.schema_major != kSchemaMajor) {
      return Status::BadInput(name + ": its schema version is " +
                              std::to_string(program.schema_major) + "." +
                              std::to_string(program.schema_minor) + ", this memmodel reads " +
                              std::to_string(kSchemaMajor) +
                              ".x (torch 2.5 to 2.15); export it again with such a torch");
    }
    const Json& module = At(json, "graph_module");
    program.graph = GraphFrom(At(module, "graph"), 0);
    const Json& signature = At(module, "signature");
    for (const Json& spec : Elements(At(signature, "input_specs"), "inputs")) {
      program.inputs.push_back(GraphInputFrom(spec));
    }
    for (const Json& spec : Elements(At(signature, "output_specs"), "outputs")) {
      program.outputs.push_back(GraphOutputFrom(spec));
    }
    if (program.inputs.size() != program.graph.inputs.size() ||
        program.outputs.size() != program.graph.outputs.size()) {
      throw Malformed("its signature and its graph disagree on the number of inputs or outputs");
    }
    ReadModuleCalls(At(module, "module_call_graph"), program);
    if (const Json* ranges = Find(json, "range_constraints")) {
      for (auto it = ranges->begin(); it != ranges->end(); ++it) {
        RangeConstraint range;
        if (const Json* min = Find(it.value(), "min_val")) range.min = Whole(*min);
        if (const Json* max = Find(it.value(), "max_val")) range.max = Whole(*max);
        program.ranges.emplace(it.key(), range);
      }
    }
    return program;
  } catch (const std::exception& error) {
    return Status::BadInput(name + ": not a torch.export program: " + error.what());
  }
}

Result<std::vector<std::pair<std::string, Payload>>> ParsePayloads(std::string_view text,
                                                                   const std::string& name) {
  try {
    const Json json = ParseJson(text);
    std::vector<std::pair<std::string, Payload>> payloads;
    const Json& config = At(json, "config");
    if (!config.is_object()) throw Malformed("\"config\" is not an object");
    for (auto it = config.begin(); it != config.end(); ++it) {
      Payload payload;
      payload.record = Text(it.value(), "path_name");
      payload.pickled = Flag(At(it.value(), "use_pickle"));
      if (const Json* meta = Find(it.value(), "tensor_meta")) payload.meta = TensorMetaFrom(*meta);
      payloads.emplace_back(it.key(), std::move(payload));
    }
    return payloads;
  } catch (const std::exception& error) {
    return Status::BadInput(name + ": not a table of weights: " + error.what());
  }
}

}  // namespace memmodel::step
