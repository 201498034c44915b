#include "src/step/pt2_operands.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

namespace memmodel::step {
namespace {

using Kind = Argument::Kind;
using Want = Operand::Want;
using Element = Operand::Element;

Operand Constant(c10::IValue value) {
  Operand operand;
  operand.constant = std::move(value);
  return operand;
}

Operand Slot(const std::string& name, const SlotNames& names, Want want = Want::kAsIs) {
  const auto it = names.find(name);
  if (it == names.end()) throw Refused("the value " + name + " is used before it is made");
  Operand operand;
  operand.kind = Operand::Kind::kSlot;
  operand.slot = it->second;
  operand.want = want;
  return operand;
}

// Python's argument parser turns a number into such a tensor where an operator
// takes only tensors; it takes no part in type promotion and stays on the CPU.
c10::IValue NumberAsTensor(const at::Scalar& number) {
  at::Tensor tensor = at::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::Scalar ScalarOf(const Argument& argument) {
  switch (argument.kind) {
    case Kind::kInt:
      return argument.integer;
    case Kind::kBool:
      return argument.boolean;
    case Kind::kComplex:
      return c10::complex<double>(argument.real, argument.imaginary);
    default:
      return argument.real;
  }
}

bool IsNumber(const Argument& argument) {
  return argument.kind == Kind::kInt || argument.kind == Kind::kFloat ||
         argument.kind == Kind::kBool || argument.kind == Kind::kComplex;
}

double RealOf(const Argument& argument) {
  if (argument.kind == Kind::kFloat) return argument.real;
  if (argument.kind == Kind::kInt) return static_cast<double>(argument.integer);
  if (argument.kind == Kind::kBool) return argument.boolean ? 1 : 0;
  throw Refused("a list of numbers holds something else");
}

Operand SlotList(Element element, const std::vector<Argument>& items, const SlotNames& names) {
  Operand operand;
  operand.kind = Operand::Kind::kList;
  operand.element = element;
  const Want want = element == Element::kReal ? Want::kReal : Want::kAsIs;
  for (const Argument& item : items) {
    if (item.kind == Kind::kTensor || item.kind == Kind::kSymbol) {
      operand.items.push_back(Slot(item.text, names, want));
    } else if (item.kind == Kind::kInt) {
      operand.items.push_back(Constant(item.integer));
    } else if (item.kind == Kind::kFloat) {
      operand.items.push_back(Constant(item.real));
    } else if (item.kind == Kind::kBool) {
      operand.items.push_back(Constant(item.boolean));
    } else if (item.kind == Kind::kNone) {
      operand.items.push_back(Constant(c10::IValue()));
    } else {
      throw Refused("a list holds an argument of an unknown kind");
    }
  }
  return operand;
}

bool HasSymbol(const std::vector<Argument>& items) {
  return std::any_of(items.begin(), items.end(),
                     [](const Argument& a) { return a.kind == Kind::kSymbol; });
}

// A plain list of whole numbers: they are expected to be just that.
c10::List<std::int64_t> Ints(const std::vector<Argument>& items) {
  c10::List<std::int64_t> list;
  for (const Argument& item : items) {
    if (item.kind != Kind::kInt) throw Refused("a list of whole numbers holds something else");
    list.push_back(item.integer);
  }
  return list;
}

Operand ListOperand(const std::vector<Argument>& items, const c10::TypePtr& element,
                    const SlotNames& names) {
  switch (element->kind()) {
    case c10::TypeKind::IntType:
      return HasSymbol(items) ? SlotList(Element::kInt, items, names) : Constant(Ints(items));
    case c10::TypeKind::FloatType: {
      if (HasSymbol(items)) return SlotList(Element::kReal, items, names);
      c10::List<double> list;
      for (const Argument& item : items) list.push_back(RealOf(item));
      return Constant(std::move(list));
    }
    case c10::TypeKind::BoolType: {
      if (HasSymbol(items)) return SlotList(Element::kBool, items, names);
      c10::List<bool> list;
      for (const Argument& item : items) list.push_back(item.boolean);
      return Constant(std::move(list));
    }
    case c10::TypeKind::StringType: {
      c10::List<std::string> list;
      for (const Argument& item : items) list.push_back(item.text);
      return Constant(std::move(list));
    }
    case c10::TypeKind::NumberType: {
      c10::impl::GenericList list(c10::NumberType::get());
      for (const Argument& item : items) {
        if (!IsNumber(item)) throw Refused("a list of numbers holds something else");
        list.push_back(c10::IValue(ScalarOf(item)));
      }
      return Constant(std::move(list));
    }
    case c10::TypeKind::TensorType:
      return SlotList(Element::kTensor, items, names);
    case c10::TypeKind::OptionalType:
      return SlotList(Element::kOptionalTensor, items, names);
    default:
      throw Refused("a list of " + element->str() + " is not supported");
  }
}

// One number for a list of fixed length ("int[2] stride") stands for all of it.
Operand NumberOperand(const Argument& argument, const c10::TypePtr& type,
                      std::optional<std::int32_t> length, const SlotNames& names) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Constant(NumberAsTensor(ScalarOf(argument)));
    case c10::TypeKind::FloatType:
      return Constant(RealOf(argument));
    case c10::TypeKind::BoolType:
      return Constant(argument.kind == Kind::kInt ? argument.integer != 0 : argument.boolean);
    case c10::TypeKind::IntType:
      if (argument.kind != Kind::kInt && argument.kind != Kind::kBool) {
        throw Refused("expected a whole number");
      }
      return Constant(argument.kind == Kind::kInt ? argument.integer : argument.boolean ? 1 : 0);
    case c10::TypeKind::ListType:
      return ListOperand(
          std::vector<Argument>(static_cast<std::size_t>(length.value_or(1)), argument),
          type->castRaw<c10::ListType>()->getElementType(), names);
    default:
      return Constant(c10::IValue(ScalarOf(argument)));
  }
}

Operand SymbolOperand(const Argument& argument, const c10::TypePtr& type,
                      std::optional<std::int32_t> length, const SlotNames& names) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Slot(argument.text, names, Want::kTensor);
    case c10::TypeKind::FloatType:
      return Slot(argument.text, names, Want::kReal);
    case c10::TypeKind::ListType:
      return ListOperand(
          std::vector<Argument>(static_cast<std::size_t>(length.value_or(1)), argument),
          type->castRaw<c10::ListType>()->getElementType(), names);
    default:
      return Slot(argument.text, names);
  }
}

Operand DeviceOperand(const Argument& argument) {
  Operand operand;
  operand.kind = Operand::Kind::kDevice;
  operand.device_type = argument.text;
  if (argument.integer < -1 || argument.integer > 127) throw Refused("a device of a strange index");
  operand.device_index = static_cast<int>(argument.integer);
  return operand;
}

}  // namespace

Operand MakeOperand(const Argument& argument, const c10::Argument& wanted, const SlotNames& names) {
  c10::TypePtr type = wanted.type();
  bool optional = false;
  if (type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType();
    optional = true;
  }
  switch (argument.kind) {
    case Kind::kNone:
      if (!optional && type->kind() == c10::TypeKind::TensorType) return Constant(at::Tensor());
      return Constant(c10::IValue());
    case Kind::kTensor:
      return Slot(argument.text, names);
    case Kind::kSymbol:
      return SymbolOperand(argument, type, wanted.N(), names);
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBool:
    case Kind::kComplex:
      return NumberOperand(argument, type, wanted.N(), names);
    case Kind::kString:
      return Constant(argument.text);
    case Kind::kScalarType:
    case Kind::kLayout:
    case Kind::kMemoryFormat:
      return Constant(argument.integer);
    case Kind::kDevice:
      return DeviceOperand(argument);
    case Kind::kList:
      if (type->kind() != c10::TypeKind::ListType) {
        throw Refused("argument " + wanted.name() + " is a list, expected " + type->str());
      }
      return ListOperand(argument.items, type->castRaw<c10::ListType>()->getElementType(), names);
    case Kind::kGraph:
    case Kind::kUnsupported:
      break;
  }
  throw Refused("argument " + wanted.name() + " of kind " + argument.text + " is not supported");
}

Operand MakePlainOperand(const Argument& argument, const SlotNames& names) {
  switch (argument.kind) {
    case Kind::kTensor:
    case Kind::kSymbol:
      return Slot(argument.text, names);
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBool:
      return Constant(c10::IValue(ScalarOf(argument)));
    case Kind::kNone:
      return Constant(c10::IValue());
    case Kind::kString:
      return Constant(argument.text);
    case Kind::kList:
      return SlotList(Element::kInt, argument.items, names);
    default:
      throw Refused("an argument of an operation on numbers is of an unknown kind");
  }
}

}  // namespace memmodel::step
