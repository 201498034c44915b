#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "src/step/pt2_schema.h"
#include "src/step/pt2_zip.h"

namespace memmodel::step {
namespace {

const std::string kArchives = std::string(MEMMODEL_TEST_DATA) + "/archives/";

std::string Model(const std::string& name,
                  const std::string& record = "archive/models/model.json") {
  const auto zip = ZipFile::Open(kArchives + name);
  REQUIRE(zip.ok());
  const auto text = zip->Read(record, 1 << 20);
  REQUIRE(text.ok());
  return *text;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a program of torch 2.11") {
  const auto program = ParseProgram(Model("language.pt2"), "x");
  REQUIRE(program.ok());
  CHECK(program->schema_major == 8);
  CHECK(program->torch_version.substr(0, 4) == "2.11");
  // embed.weight and out.weight are one parameter; positions is a buffer of 12 numbers
  // that the state dict does not have; mask is None.
  REQUIRE(program->inputs.size() >= 4);
  CHECK(program->inputs[0].kind == InputKind::kParameter);
  CHECK(program->inputs[0].target == "embed.weight");
  const GraphInput& buffer = program->inputs[program->inputs.size() - 3];
  CHECK(buffer.kind == InputKind::kBuffer);
  CHECK(buffer.target == "positions");
  CHECK_FALSE(buffer.persistent);
  const GraphInput& tokens = program->inputs[program->inputs.size() - 2];
  CHECK(tokens.kind == InputKind::kUser);
  CHECK(program->inputs.back().kind == InputKind::kNumber);
  const TensorMeta& meta = program->graph.tensors.at(tokens.value);
  CHECK((meta.dtype == c10::ScalarType::Long));
  REQUIRE(meta.sizes.size() == 2);
  CHECK_FALSE(meta.sizes[0].value);
  CHECK(meta.sizes[0].hint == 4);
  CHECK(meta.sizes[1].value == 12);
  REQUIRE(program->ranges.size() == 1);
  CHECK(program->ranges.begin()->second.min == 2);
  CHECK(program->ranges.begin()->second.max == 65536);
  CHECK(program->outputs.size() == 2);
  CHECK((program->argument_names == std::vector<std::string>{"tokens", "mask"}));
}

TEST_CASE("module calls and stack traces") {
  const auto program = ParseProgram(Model("perceptron.pt2"), "x");
  REQUIRE(program.ok());
  const Node& node = program->graph.nodes.at(0);
  CHECK(node.target == "torch.ops.aten.linear.default");
  REQUIRE(node.modules.size() == 2);
  CHECK(node.modules[0].path.empty());
  CHECK(node.modules[1].path == "a");
  CHECK(node.modules[1].type == "torch.nn.modules.linear.Linear");
  CHECK(node.stack_trace.find("hidden = self.a(x)") != std::string::npos);
  CHECK(program->modules == std::vector<std::string>{"", "a", "b"});
}

TEST_CASE("the older layouts hold the same graph") {
  const auto now = ParseProgram(Model("perceptron.pt2"), "x");
  const auto then =
      ParseProgram(Model("perceptron_torch26.pt2", "serialized_exported_program.json"), "x");
  REQUIRE(now.ok());
  REQUIRE(then.ok());
  CHECK(then->schema_minor == 2);
  REQUIRE(then->graph.nodes.size() == now->graph.nodes.size());
  for (std::size_t i = 0; i < now->graph.nodes.size(); ++i) {
    CHECK(then->graph.nodes[i].target == now->graph.nodes[i].target);
    CHECK(then->graph.nodes[i].inputs.size() == now->graph.nodes[i].inputs.size());
  }
}

TEST_CASE("numbers of the schema are not c10's") {
  // schema.py: FLOAT = 7, BFLOAT16 = 13, UINT64 = 35; c10: Float = 6, BFloat16 = 15.
  const std::string text = Model("perceptron.pt2");
  const auto dtype = [&](const std::string& number) {
    const auto program = ParseProgram(Replaced(text, "\"dtype\": 7", "\"dtype\": " + number), "x");
    if (!program.ok()) return c10::ScalarType::Undefined;
    for (const auto& [name, meta] : program->graph.tensors) {
      if (meta.dtype != c10::ScalarType::Float) return meta.dtype;
    }
    return c10::ScalarType::Float;
  };
  CHECK((dtype("7") == c10::ScalarType::Float));
  CHECK((dtype("13") == c10::ScalarType::BFloat16));
  CHECK((dtype("35") == c10::ScalarType::UInt64));
  CHECK((dtype("99") == c10::ScalarType::Undefined));
}

TEST_CASE("a newer major version is refused with both numbers, a newer minor one read") {
  const auto newer = ParseProgram(Model("newer_schema.pt2"), "x.pt2");
  REQUIRE_FALSE(newer.ok());
  CHECK(newer.status().code() == StatusCode::kBadInput);
  CHECK(newer.status().message().find("9.1") != std::string::npos);
  CHECK(newer.status().message().find("8.x") != std::string::npos);
  const auto minor =
      ParseProgram(Replaced(Model("perceptron.pt2"), "\"minor\": 17", "\"minor\": 99"), "x");
  REQUIRE(minor.ok());
  CHECK(minor->schema_minor == 99);
}

TEST_CASE("infinite numbers, quoted and as older Python wrote them") {
  const std::string text = Model("perceptron.pt2");
  for (const char* number : {"\"-Infinity\"", "-Infinity"}) {
    const auto program =
        ParseProgram(Replaced(text, "\"arg\": {\"as_tensor\": {\"name\": \"x\"}}",
                              std::string("\"arg\": {\"as_float\": ") + number + "}"),
                     "x");
    REQUIRE(program.ok());
    CHECK(program->graph.nodes[0].inputs[0].value.kind == Argument::Kind::kFloat);
    CHECK(program->graph.nodes[0].inputs[0].value.real == -std::numeric_limits<double>::infinity());
  }
}

TEST_CASE("hostile text ends in one message") {
  const std::string text = Model("perceptron.pt2");
  std::string nested(1000, '[');
  for (const std::string& bad :
       {std::string(), std::string("null"), std::string("[]"), std::string("{}"),
        std::string(100000, '{'), std::string(100000, '['), std::string("\"Infinity"),
        std::string("\\"), Model("not_json.pt2"), Model("negative_size.pt2"),
        Replaced(text, "\"nodes\": [", "\"nodes\": 7, \"x\": ["),
        Replaced(text, "\"as_int\": 8", "\"as_int\": 1e300"),
        Replaced(text, "\"as_int\": 8", "\"as_int\": 18446744073709551615"),
        Replaced(text, "\"as_int\": 8", "\"as_int\": \"eight\""),
        Replaced(text, "\"input_specs\": [", "\"input_specs\": [null, ")}) {
    const auto program = ParseProgram(bad, "x.pt2");
    REQUIRE_FALSE(program.ok());
    CHECK(program.status().code() == StatusCode::kBadInput);
    CHECK(program.status().message().find("x.pt2") == 0);
    CHECK(program.status().message().find('\n') == std::string::npos);
  }
}

TEST_CASE("every truncation of the text is refused") {
  const std::string text = Model("perceptron.pt2");
  for (std::size_t bytes = 0; bytes < text.size(); bytes += 61) {
    CHECK_FALSE(ParseProgram(std::string_view(text).substr(0, bytes), "x").ok());
  }
}

TEST_CASE("tables of weights") {
  const auto zip = ZipFile::Open(kArchives + "language.pt2");
  REQUIRE(zip.ok());
  const auto table =
      ParsePayloads(*zip->Read("archive/data/weights/model_weights_config.json", 1 << 20), "x");
  REQUIRE(table.ok());
  REQUIRE(table->size() == 2);
  CHECK((*table)[0].first == "embed.weight");
  CHECK((*table)[1].first == "out.weight");
  CHECK((*table)[0].second.record == (*table)[1].second.record);  // tied
  CHECK((*table)[0].second.meta->requires_grad);
  CHECK_FALSE(ParsePayloads("{\"config\": []}", "x").ok());
  CHECK_FALSE(ParsePayloads("{\"config\": {\"a\": {\"path_name\": 3}}}", "x").ok());
}

}  // namespace
}  // namespace memmodel::step
