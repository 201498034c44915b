// The cases of schema.py's unions: sizes, tensors' descriptions, node arguments.
#include "src/step/pt2_json.h"

namespace memmodel::step::pt2 {
namespace {

using Kind = Argument::Kind;

c10::ScalarType ScalarTypeFrom(std::int64_t number) {
  using T = c10::ScalarType;
  switch (number) {  // schema.py, class ScalarType
    case 1:
      return T::Byte;
    case 2:
      return T::Char;
    case 3:
      return T::Short;
    case 4:
      return T::Int;
    case 5:
      return T::Long;
    case 6:
      return T::Half;
    case 7:
      return T::Float;
    case 8:
      return T::Double;
    case 9:
      return T::ComplexHalf;
    case 10:
      return T::ComplexFloat;
    case 11:
      return T::ComplexDouble;
    case 12:
      return T::Bool;
    case 13:
      return T::BFloat16;
    case 28:
      return T::UInt16;
    case 29:
      return T::Float8_e4m3fn;
    case 30:
      return T::Float8_e5m2;
    case 31:
      return T::Float8_e4m3fnuz;
    case 32:
      return T::Float8_e5m2fnuz;
    case 33:
      return T::Float8_e8m0fnu;
    case 34:
      return T::UInt32;
    case 35:
      return T::UInt64;
    default:
      throw Malformed("data type number " + std::to_string(number) + " is not known");
  }
}

c10::Layout LayoutFrom(std::int64_t number) {
  switch (number) {  // schema.py, class Layout
    case 1:
      return c10::kSparse;
    case 2:
      return c10::kSparseCsr;
    case 3:
      return c10::kSparseCsc;
    case 4:
      return c10::kSparseBsr;
    case 5:
      return c10::kSparseBsc;
    case 6:
      return c10::kMkldnn;
    case 7:
      return c10::kStrided;
    default:
      throw Malformed("layout number " + std::to_string(number) + " is not known");
  }
}

c10::MemoryFormat MemoryFormatFrom(std::int64_t number) {
  switch (number) {  // schema.py, class MemoryFormat
    case 1:
      return c10::MemoryFormat::Contiguous;
    case 2:
      return c10::MemoryFormat::ChannelsLast;
    case 3:
      return c10::MemoryFormat::ChannelsLast3d;
    case 4:
      return c10::MemoryFormat::Preserve;
    default:
      throw Malformed("memory format number " + std::to_string(number) + " is not known");
  }
}

}  // namespace

Dimension DimensionFrom(const Json& value) {
  Dimension dimension;
  const auto [name, content] = Case(value);
  if (name == "as_int") {
    dimension.value = Whole(*content);
  } else if (name == "as_expr") {
    dimension.expression = Text(*content, "expr_str");
    if (const Json* hint = Find(*content, "hint")) {
      // Schema 8.0 writes the hint as a plain number or as a case.
      const Json* number = hint->is_object() ? Case(*hint).second : hint;
      if (number->is_number_integer()) dimension.hint = Whole(*number);
    }
  } else {
    throw Malformed("size of an unknown kind: " + name);
  }
  return dimension;
}

std::vector<Dimension> DimensionsFrom(const Json& value) {
  std::vector<Dimension> dimensions;
  for (const Json& element : Elements(value, "sizes")) dimensions.push_back(DimensionFrom(element));
  return dimensions;
}

TensorMeta TensorMetaFrom(const Json& value) {
  TensorMeta meta;
  meta.dtype = ScalarTypeFrom(Whole(At(value, "dtype")));
  meta.sizes = DimensionsFrom(At(value, "sizes"));
  meta.strides = DimensionsFrom(At(value, "strides"));
  if (const Json* offset = Find(value, "storage_offset")) {
    meta.storage_offset = DimensionFrom(*offset);
  }
  meta.requires_grad = Flag(At(value, "requires_grad"));
  meta.device_type = Text(At(value, "device"), "type");
  for (const Dimension& size : meta.sizes) {
    if (size.value && *size.value < 0) throw Malformed("a tensor of negative size");
  }
  return meta;
}

namespace {

Argument Named(Kind kind, const Json& value, const char* key) {
  Argument argument;
  argument.kind = kind;
  argument.text = Text(value, key);
  return argument;
}

Argument OfInt(Kind kind, std::int64_t integer) {
  Argument argument;
  argument.kind = kind;
  argument.integer = integer;
  return argument;
}

Argument Plain(const std::string& name, const Json& value, int depth);

// Symbolic numbers are named by the node that makes them or stand there plainly.
Argument Symbolic(const Json& value, int depth) {
  const auto [name, content] = Case(value);
  if (name != "as_name") return Plain(name, *content, depth + 1);
  if (!content->is_string()) throw Malformed("the name of a number is not a text");
  Argument argument;
  argument.kind = Kind::kSymbol;
  argument.text = content->get<std::string>();
  return argument;
}

Argument ListOf(const std::string& element, const Json& value, int depth) {
  Argument list;
  list.kind = Kind::kList;
  for (const Json& item : Elements(value, "arguments")) {
    list.items.push_back(Plain(element, item, depth + 1));
  }
  return list;
}

// The case `name` of schema.py's unions Argument, OptionalTensorArgument,
// SymIntArgument and so on.
Argument Plain(const std::string& name, const Json& value, int depth) {
  if (depth > kMaxNesting) throw Malformed("arguments are nested too deeply");
  Argument argument;
  if (name == "as_none") return argument;
  if (name == "as_tensor") return Named(Kind::kTensor, value, "name");
  if (name == "as_optional_tensor") {
    const auto [inner, content] = Case(value);
    return Plain(inner, *content, depth + 1);
  }
  if (name == "as_int") return OfInt(Kind::kInt, Whole(value));
  if (name == "as_scalar_type") {
    return OfInt(Kind::kScalarType, static_cast<std::int64_t>(ScalarTypeFrom(Whole(value))));
  }
  if (name == "as_layout") {
    return OfInt(Kind::kLayout, static_cast<std::int64_t>(LayoutFrom(Whole(value))));
  }
  if (name == "as_memory_format") {
    return OfInt(Kind::kMemoryFormat, static_cast<std::int64_t>(MemoryFormatFrom(Whole(value))));
  }
  if (name == "as_float") {
    argument.kind = Kind::kFloat;
    argument.real = Real(value);
    return argument;
  }
  if (name == "as_bool") {
    argument.kind = Kind::kBool;
    argument.boolean = Flag(value);
    return argument;
  }
  if (name == "as_string") {
    if (!value.is_string()) throw Malformed("expected a text");
    argument.kind = Kind::kString;
    argument.text = value.get<std::string>();
    return argument;
  }
  if (name == "as_complex") {
    argument.kind = Kind::kComplex;
    argument.real = Real(At(value, "real"));
    argument.imaginary = Real(At(value, "imag"));
    return argument;
  }
  if (name == "as_device") {
    argument = Named(Kind::kDevice, value, "type");
    const Json* index = Find(value, "index");
    argument.integer = index != nullptr ? Whole(*index) : -1;
    return argument;
  }
  if (name == "as_sym_int" || name == "as_sym_float" || name == "as_sym_bool") {
    return Symbolic(value, depth);
  }
  if (name == "as_sym_ints") return ListOf("as_sym_int", value, depth);
  if (name == "as_sym_floats") return ListOf("as_sym_float", value, depth);
  if (name == "as_sym_bools") return ListOf("as_sym_bool", value, depth);
  if (name == "as_tensors") return ListOf("as_tensor", value, depth);
  if (name == "as_optional_tensors") return ListOf("as_optional_tensor", value, depth);
  if (name == "as_ints") return ListOf("as_int", value, depth);
  if (name == "as_floats") return ListOf("as_float", value, depth);
  if (name == "as_bools") return ListOf("as_bool", value, depth);
  if (name == "as_strings") return ListOf("as_string", value, depth);
  if (name == "as_int_lists") return ListOf("as_ints", value, depth);
  if (name == "as_nested_tensors") return ListOf("as_tensors", value, depth);
  if (name == "as_graph") {
    argument.kind = Kind::kGraph;
    argument.text = Text(value, "name");
    argument.graph = std::make_shared<const Graph>(GraphFrom(At(value, "graph"), depth + 1));
    return argument;
  }
  // as_custom_obj, as_operator, as_string_to_argument and whatever comes later.
  argument.kind = Kind::kUnsupported;
  argument.text = name;
  return argument;
}

}  // namespace

Argument ArgumentFrom(const Json& value, int depth) {
  const auto [name, content] = Case(value);
  return Plain(name, *content, depth);
}

}  // namespace memmodel::step::pt2
