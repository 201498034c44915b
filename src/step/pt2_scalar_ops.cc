#include "src/step/pt2_scalar_ops.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <limits>
#include <map>

namespace memmodel::step {
namespace {

using Operands = std::vector<c10::IValue>;

const c10::IValue& Operand(const Operands& operands, std::size_t i) {
  TORCH_CHECK(i < operands.size(), "a number operation lacks its operand ", i);
  return operands[i];
}

bool IsReal(const c10::IValue& value) { return value.isDouble(); }

double Real(const c10::IValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (value.isBool()) return value.toBool() ? 1 : 0;
  TORCH_CHECK(value.isInt(), "expected a number, found ", value.tagKind());
  return static_cast<double>(value.toInt());
}

std::int64_t Whole(const c10::IValue& value) {
  if (value.isBool()) return value.toBool() ? 1 : 0;
  TORCH_CHECK(value.isInt(), "expected a whole number, found ", value.tagKind());
  return value.toInt();
}

bool Truth(const c10::IValue& value) { return value.isBool() ? value.toBool() : Real(value) != 0; }

std::int64_t ToWhole(double value) {
  TORCH_CHECK(std::abs(value) < 9.2e18, "a number does not fit 64 bits: ", value);
  return static_cast<std::int64_t>(value);
}

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) {
  TORCH_CHECK(b != 0, "division by zero");
  if (b == -1) return -a;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t Checked(bool overflow, std::int64_t value) {
  TORCH_CHECK(!overflow, "a number does not fit 64 bits");
  return value;
}
std::int64_t AddInts(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_add_overflow(a, b, &r);
  return Checked(overflow, r);
}
std::int64_t SubtractInts(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_sub_overflow(a, b, &r);
  return Checked(overflow, r);
}
std::int64_t MultiplyInts(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &r);
  return Checked(overflow, r);
}

// Arithmetic stays whole if both operands are.
template <typename Ints, typename Reals>
c10::IValue Arithmetic(const Operands& o, Ints ints, Reals reals) {
  const c10::IValue& a = Operand(o, 0);
  const c10::IValue& b = Operand(o, 1);
  if (IsReal(a) || IsReal(b)) return reals(Real(a), Real(b));
  return ints(Whole(a), Whole(b));
}

c10::IValue Add(const Operands& o) {
  return Arithmetic(o, AddInts, [](double a, double b) { return a + b; });
}
c10::IValue Subtract(const Operands& o) {
  return Arithmetic(o, SubtractInts, [](double a, double b) { return a - b; });
}
c10::IValue Multiply(const Operands& o) {
  return Arithmetic(o, MultiplyInts, [](double a, double b) { return a * b; });
}
c10::IValue FloorDiv(const Operands& o) {
  return Arithmetic(o, FloorDivide, [](double a, double b) { return std::floor(a / b); });
}
c10::IValue Mod(const Operands& o) {
  return Arithmetic(
      o, [](std::int64_t a, std::int64_t b) { return a - FloorDivide(a, b) * b; },
      [](double a, double b) { return a - std::floor(a / b) * b; });
}
c10::IValue TrueDiv(const Operands& o) {
  const double divisor = Real(Operand(o, 1));
  TORCH_CHECK(divisor != 0, "division by zero");
  return Real(Operand(o, 0)) / divisor;
}
c10::IValue Pow(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  const c10::IValue& b = Operand(o, 1);
  if (IsReal(a) || IsReal(b) || Whole(b) < 0) return std::pow(Real(a), Real(b));
  TORCH_CHECK(Whole(b) <= 64, "exponent too large: ", Whole(b));
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < Whole(b); ++i) result = MultiplyInts(result, Whole(a));
  return result;
}
c10::IValue Neg(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  return IsReal(a) ? c10::IValue(-Real(a)) : c10::IValue(SubtractInts(0, Whole(a)));
}
c10::IValue Same(const Operands& o) { return Operand(o, 0); }
c10::IValue Abs(const Operands& o) { return Real(Operand(o, 0)) < 0 ? Neg(o) : Same(o); }

template <typename Compare>
c10::IValue Comparison(const Operands& o, Compare compare) {
  const c10::IValue& a = Operand(o, 0);
  const c10::IValue& b = Operand(o, 1);
  if (IsReal(a) || IsReal(b)) return bool(compare(Real(a), Real(b)));
  return bool(compare(Whole(a), Whole(b)));
}
c10::IValue Eq(const Operands& o) { return Comparison(o, std::equal_to<>()); }
c10::IValue Ne(const Operands& o) { return Comparison(o, std::not_equal_to<>()); }
c10::IValue Le(const Operands& o) { return Comparison(o, std::less_equal<>()); }
c10::IValue Ge(const Operands& o) { return Comparison(o, std::greater_equal<>()); }
c10::IValue Lt(const Operands& o) { return Comparison(o, std::less<>()); }
c10::IValue Gt(const Operands& o) { return Comparison(o, std::greater<>()); }

c10::IValue And(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  const c10::IValue& b = Operand(o, 1);
  if (a.isBool() && b.isBool()) return a.toBool() && b.toBool();
  return Whole(a) & Whole(b);
}
c10::IValue Or(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  const c10::IValue& b = Operand(o, 1);
  if (a.isBool() && b.isBool()) return a.toBool() || b.toBool();
  return Whole(a) | Whole(b);
}
c10::IValue ShiftLeft(const Operands& o) {
  const std::int64_t by = Whole(Operand(o, 1));
  TORCH_CHECK(by >= 0 && by < 63, "shift by ", by);
  return MultiplyInts(Whole(Operand(o, 0)), std::int64_t{1} << by);
}
c10::IValue ShiftRight(const Operands& o) {
  const std::int64_t by = Whole(Operand(o, 1));
  TORCH_CHECK(by >= 0 && by < 64, "shift by ", by);
  return Whole(Operand(o, 0)) >> by;
}
c10::IValue Not(const Operands& o) { return !Truth(Operand(o, 0)); }

c10::IValue Trunc(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  return IsReal(a) ? ToWhole(std::trunc(Real(a))) : Whole(a);
}
c10::IValue Floor(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  return IsReal(a) ? ToWhole(std::floor(Real(a))) : Whole(a);
}
c10::IValue Ceil(const Operands& o) {
  const c10::IValue& a = Operand(o, 0);
  return IsReal(a) ? ToWhole(std::ceil(Real(a))) : Whole(a);
}
c10::IValue Round(const Operands& o) {  // half to even, as Python's
  const c10::IValue& a = Operand(o, 0);
  return IsReal(a) ? ToWhole(std::nearbyint(Real(a))) : Whole(a);
}
c10::IValue ToReal(const Operands& o) { return Real(Operand(o, 0)); }
c10::IValue Sqrt(const Operands& o) { return std::sqrt(Real(Operand(o, 0))); }

c10::IValue Max(const Operands& o) { return Truth(Lt(o)) ? Operand(o, 1) : Operand(o, 0); }
c10::IValue Min(const Operands& o) { return Truth(Gt(o)) ? Operand(o, 1) : Operand(o, 0); }
c10::IValue IfThenElse(const Operands& o) {
  return Truth(Operand(o, 0)) ? Operand(o, 1) : Operand(o, 2);
}
c10::IValue Sum(const Operands& o) {
  std::int64_t total = 0;
  for (const std::int64_t value : Operand(o, 0).toIntVector()) total = AddInts(total, value);
  return total;
}

c10::IValue TensorSize(const Operands& o) {
  const at::Tensor& tensor = Operand(o, 0).toTensor();
  return tensor.size(Whole(Operand(o, 1)));
}
c10::IValue TensorStride(const Operands& o) {
  const at::Tensor& tensor = Operand(o, 0).toTensor();
  return tensor.stride(Whole(Operand(o, 1)));
}
c10::IValue TensorElements(const Operands& o) { return Operand(o, 0).toTensor().numel(); }
c10::IValue TensorOffset(const Operands& o) { return Operand(o, 0).toTensor().storage_offset(); }

}  // namespace

ScalarFunction FindScalarFunction(std::string_view target) {
  static const std::map<std::string_view, ScalarFunction> functions = {
      {"_operator.add", Add},
      {"_operator.sub", Subtract},
      {"_operator.mul", Multiply},
      {"_operator.floordiv", FloorDiv},
      {"_operator.truediv", TrueDiv},
      {"_operator.mod", Mod},
      {"_operator.pow", Pow},
      {"_operator.neg", Neg},
      {"_operator.pos", Same},
      {"_operator.abs", Abs},
      {"_operator.eq", Eq},
      {"_operator.ne", Ne},
      {"_operator.le", Le},
      {"_operator.ge", Ge},
      {"_operator.lt", Lt},
      {"_operator.gt", Gt},
      {"_operator.and_", And},
      {"_operator.or_", Or},
      {"_operator.lshift", ShiftLeft},
      {"_operator.rshift", ShiftRight},
      {"math.trunc", Trunc},
      {"math.floor", Floor},
      {"math.ceil", Ceil},
      {"math.sqrt", Sqrt},
      {"builtins.round", Round},
      {"builtins.abs", Abs},
      {"builtins.max", Max},
      {"builtins.min", Min},
      {"torch.sym_not", Not},
      {"torch.sym_int", Trunc},
      {"torch.sym_float", ToReal},
      {"torch.sym_ite", IfThenElse},
      {"torch.sym_max", Max},
      {"torch.sym_min", Min},
      {"torch.sym_sum", Sum},
      {"torch.sym_sqrt", Sqrt},
      {"torch._sym_sqrt", Sqrt},
      {"torch.ops.aten.sym_size.int", TensorSize},
      {"torch.ops.aten.sym_stride.int", TensorStride},
      {"torch.ops.aten.sym_numel.default", TensorElements},
      {"torch.ops.aten.sym_storage_offset.default", TensorOffset},
  };
  const auto it = functions.find(target);
  return it == functions.end() ? nullptr : it->second;
}

}  // namespace memmodel::step
