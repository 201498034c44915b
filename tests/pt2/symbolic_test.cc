#include <doctest/doctest.h>

#include <string>

#include "src/step/pt2_symbolic.h"

namespace memmodel::step {
namespace {

const SymbolValues kValues = {{"s77", 16}, {"s0", 3}};
constexpr const char* kBatch = "Symbol('s77', positive=True, integer=True)";

std::string With(const char* before, const char* after) {
  return std::string(before) + kBatch + after;
}

TEST_CASE("sympy's srepr") {
  CHECK(EvaluateExpression(kBatch, kValues) == 16);
  CHECK(EvaluateExpression(With("Mul(Integer(4), ", ")"), kValues) == 64);
  CHECK(EvaluateExpression(With("Add(Integer(-1), ", ")"), kValues) == 15);
  CHECK(EvaluateExpression(With("Mul(Rational(1, 2), ", ")"), kValues) == 8);
  CHECK(EvaluateExpression(With("Pow(", ", Integer(2))"), kValues) == 256);
  CHECK(EvaluateExpression(With("Mul(Integer(8), Pow(", ", Integer(-1)), Integer(4))"), kValues) ==
        2);
  CHECK(EvaluateExpression(With("Max(Integer(1), ", ")"), kValues) == 16);
  CHECK(EvaluateExpression(With("Min(Integer(1), ", ")"), kValues) == 1);
}

TEST_CASE("torch's own functions round as Python does") {
  CHECK(EvaluateExpression("FloorDiv(Integer(7), Integer(2))", {}) == 3);
  CHECK(EvaluateExpression("FloorDiv(Integer(-7), Integer(2))", {}) == -4);
  CHECK(EvaluateExpression("PythonMod(Integer(-7), Integer(3))", {}) == 2);
  CHECK(EvaluateExpression("CeilToInt(IntTrueDiv(Integer(7), Integer(2)))", {}) == 4);
  CHECK(EvaluateExpression("TruncToInt(Rational(-7, 2))", {}) == -3);
  CHECK(EvaluateExpression("ModularIndexing(Integer(23), Integer(4), Integer(3))", {}) == 2);
}

TEST_CASE("the plain form of older archives") {
  CHECK(EvaluateExpression("s77", kValues) == 16);
  CHECK(EvaluateExpression("2*s77 + s0 - 1", kValues) == 34);
  CHECK(EvaluateExpression("(s77//s0)**2", kValues) == 25);
  CHECK(EvaluateExpression("s77/4 % 3", kValues) == 1);
  CHECK(EvaluateExpression("-s0*(2 - 5)", kValues) == 9);
}

TEST_CASE("what has no value") {
  CHECK_FALSE(EvaluateExpression("s1", kValues));
  CHECK_FALSE(EvaluateExpression("s77/3", kValues));
  CHECK_FALSE(EvaluateExpression("s77//0", kValues));
  CHECK_FALSE(EvaluateExpression("Unknown(s77)", kValues));
  CHECK_FALSE(EvaluateExpression("9223372036854775807*s77", kValues));
  CHECK_FALSE(EvaluateExpression("99999999999999999999", kValues));
  for (const char* broken : {"", "(", "Mul(", "Symbol('s77", "1 2", "Mul(2 3)", "*", "s77 +"}) {
    CHECK_FALSE(EvaluateExpression(broken, kValues));
  }
  CHECK_FALSE(EvaluateExpression(std::string(100000, '('), kValues));
  CHECK_FALSE(EvaluateExpression(std::string(100000, '-') + "1", kValues));
}

TEST_CASE("bare symbols") {
  CHECK(BareSymbol(kBatch) == "s77");
  CHECK(BareSymbol("s0") == "s0");
  CHECK_FALSE(BareSymbol("2*s0"));
  CHECK_FALSE(BareSymbol(With("Mul(Integer(2), ", ")")));
  CHECK_FALSE(BareSymbol("7"));
}

}  // namespace
}  // namespace memmodel::step
