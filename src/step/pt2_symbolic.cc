// A recursive-descent evaluator for both forms at once:
//   sum     = product { ("+" | "-") product }
//   product = power { ("*" | "/" | "//" | "%") power }
//   power   = ["-"] atom [ "**" power ]
//   atom    = number | name | name "(" arguments ")" | "(" sum ")"
// Values are fractions in lowest terms, since Pow(Integer(2), Integer(-1)) and
// Rational(1, 2) stand inside products that are whole. The names are those of
// sympy and of torch/utils/_sympy/functions.py.
#include "src/step/pt2_symbolic.h"

#include <cctype>
#include <vector>

namespace memmodel::step {
namespace {

constexpr int kMaxDepth = 100;

struct Fraction {
  std::int64_t above = 0;
  std::int64_t below = 1;  // > 0
};
using Value = std::optional<Fraction>;

Value Reduced(__int128 above, __int128 below) {
  if (below == 0) return std::nullopt;
  if (below < 0) {
    above = -above;
    below = -below;
  }
  __int128 a = above < 0 ? -above : above;
  __int128 b = below;
  while (b != 0) {
    const __int128 rest = a % b;
    a = b;
    b = rest;
  }
  if (a > 1) {
    above /= a;
    below /= a;
  }
  if (above > INT64_MAX || above < -static_cast<__int128>(INT64_MAX) || below > INT64_MAX) {
    return std::nullopt;
  }
  return Fraction{static_cast<std::int64_t>(above), static_cast<std::int64_t>(below)};
}

Value Add(Fraction a, Fraction b) {
  return Reduced(
      static_cast<__int128>(a.above) * b.below + static_cast<__int128>(b.above) * a.below,
      static_cast<__int128>(a.below) * b.below);
}
Value Multiply(Fraction a, Fraction b) {
  return Reduced(static_cast<__int128>(a.above) * b.above,
                 static_cast<__int128>(a.below) * b.below);
}
Value Divide(Fraction a, Fraction b) {
  return Reduced(static_cast<__int128>(a.above) * b.below,
                 static_cast<__int128>(a.below) * b.above);
}
bool Less(Fraction a, Fraction b) {
  return static_cast<__int128>(a.above) * b.below < static_cast<__int128>(b.above) * a.below;
}
Fraction Floor(Fraction a) {
  const std::int64_t down = a.above / a.below - (a.above % a.below < 0 ? 1 : 0);
  return {down, 1};
}
Fraction Negative(Fraction a) { return {-a.above, a.below}; }
Fraction Ceiling(Fraction a) { return Negative(Floor(Negative(a))); }

Value Power(Fraction base, Fraction exponent) {
  if (exponent.below != 1 || exponent.above > 64 || exponent.above < -64) return std::nullopt;
  Value result = Fraction{1, 1};
  for (std::int64_t i = 0; i < std::abs(exponent.above) && result; ++i) {
    result = exponent.above > 0 ? Multiply(*result, base) : Divide(*result, base);
  }
  return result;
}

Value FloorDivide(Fraction a, Fraction b) {
  const Value quotient = Divide(a, b);
  if (!quotient) return std::nullopt;
  return Floor(*quotient);
}
Value Modulo(Fraction a, Fraction b) {  // Python's sign: that of `b`
  const Value quotient = FloorDivide(a, b);
  if (!quotient) return std::nullopt;
  const Value whole = Multiply(*quotient, b);
  return whole ? Add(a, Negative(*whole)) : std::nullopt;
}

Value Apply(std::string_view name, const std::vector<Fraction>& a) {
  const auto fold = [&](auto operation) -> Value {
    if (a.empty()) return std::nullopt;
    Value result = a[0];
    for (std::size_t i = 1; i < a.size() && result; ++i) result = operation(*result, a[i]);
    return result;
  };
  if (name == "Add") return fold(Add);
  if (name == "Mul") return fold(Multiply);
  if (name == "Max") return fold([](Fraction x, Fraction y) { return Value(Less(x, y) ? y : x); });
  if (name == "Min") return fold([](Fraction x, Fraction y) { return Value(Less(y, x) ? y : x); });
  if (a.size() == 1) {
    if (name == "Integer" || name == "ToFloat" || name == "Identity") return a[0];
    if (name == "floor" || name == "FloorToInt") return Floor(a[0]);
    if (name == "ceiling" || name == "CeilToInt") return Ceiling(a[0]);
    if (name == "TruncToInt") return a[0].above < 0 ? Ceiling(a[0]) : Floor(a[0]);
    if (name == "Abs") return Fraction{std::abs(a[0].above), a[0].below};
  }
  if (a.size() == 2) {
    if (name == "Rational" || name == "IntTrueDiv" || name == "FloatTrueDiv" || name == "TrueDiv") {
      return Divide(a[0], a[1]);
    }
    if (name == "Pow" || name == "PowByNatural") return Power(a[0], a[1]);
    if (name == "FloorDiv" || name == "CleanDiv") return FloorDivide(a[0], a[1]);
    if (name == "CeilDiv") {
      const Value quotient = Divide(a[0], a[1]);
      return quotient ? Value(Ceiling(*quotient)) : std::nullopt;
    }
    if (name == "Mod" || name == "PythonMod") return Modulo(a[0], a[1]);
  }
  if (a.size() == 3 && name == "ModularIndexing") {
    const Value quotient = FloorDivide(a[0], a[1]);
    return quotient ? Modulo(*quotient, a[2]) : std::nullopt;
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text, const SymbolValues& values) : text_(text), values_(values) {}

  Value Whole() {
    const Value value = Sum();
    Skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool Take(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  Value Sum() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    Value left = Product();
    while (left) {
      if (Take("+")) {
        const Value right = Product();
        left = right ? Add(*left, *right) : std::nullopt;
      } else if (Take("-")) {
        const Value right = Product();
        left = right ? Add(*left, Negative(*right)) : std::nullopt;
      } else {
        break;
      }
    }
    --depth_;
    return left;
  }

  Value Product() {
    Value left = Unary();
    while (left) {
      Value (*operation)(Fraction, Fraction) = nullptr;
      if (Take("//")) {
        operation = FloorDivide;
      } else if (Take("*")) {
        operation = Multiply;
      } else if (Take("/")) {
        operation = Divide;
      } else if (Take("%")) {
        operation = Modulo;
      } else {
        break;
      }
      const Value right = Unary();
      left = right ? operation(*left, *right) : std::nullopt;
    }
    return left;
  }

  Value Unary() {
    if (++depth_ > kMaxDepth) return std::nullopt;
    Value value;
    if (Take("-")) {
      value = Unary();
      if (value) value = Negative(*value);
    } else {
      value = Atom();
      if (value && Take("**")) {
        const Value exponent = Unary();
        value = exponent ? Power(*value, *exponent) : std::nullopt;
      }
    }
    --depth_;
    return value;
  }

  Value Atom() {
    if (Take("(")) {
      const Value inner = Sum();
      return Take(")") ? inner : std::nullopt;
    }
    Skip();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      __int128 number = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
        number = number * 10 + (text_[at_++] - '0');
        if (number > INT64_MAX) return std::nullopt;
      }
      return Fraction{static_cast<std::int64_t>(number), 1};
    }
    const std::string_view name = Name();
    if (name.empty()) return std::nullopt;
    if (!Take("(")) return Lookup(name);
    if (name == "Symbol" || name == "Dummy") return Symbol();
    std::vector<Fraction> arguments;
    while (!Take(")")) {
      if (!arguments.empty() && !Take(",")) return std::nullopt;
      const Value argument = Sum();
      if (!argument) return std::nullopt;
      arguments.push_back(*argument);
    }
    return Apply(name, arguments);
  }

  // What stands after "Symbol(": 'name' and assumptions such as integer=True.
  Value Symbol() {
    if (!Take("'")) return std::nullopt;
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view name = text_.substr(at_, end - at_);
    const std::size_t close = text_.find(')', end);
    if (close == std::string_view::npos) return std::nullopt;
    at_ = close + 1;
    return Lookup(name);
  }

  std::string_view Name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }

  Value Lookup(std::string_view name) const {
    const auto it = values_.find(name);
    if (it == values_.end()) return std::nullopt;
    return Fraction{it->second, 1};
  }

  std::string_view text_;
  const SymbolValues& values_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::string> BareSymbol(std::string_view expression) {
  constexpr std::string_view kPrefix = "Symbol('";
  if (expression.substr(0, kPrefix.size()) == kPrefix) {
    const std::size_t end = expression.find('\'', kPrefix.size());
    if (end == std::string_view::npos || expression.find(')', end) != expression.size() - 1) {
      return std::nullopt;
    }
    return std::string(expression.substr(kPrefix.size(), end - kPrefix.size()));
  }
  if (expression.empty() || std::isdigit(static_cast<unsigned char>(expression[0])) != 0) {
    return std::nullopt;
  }
  for (const char c : expression) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return std::nullopt;
  }
  return std::string(expression);
}

std::optional<std::int64_t> EvaluateExpression(std::string_view expression,
                                               const SymbolValues& values) {
  const Value value = Parser(expression, values).Whole();
  if (!value || value->below != 1) return std::nullopt;
  return value->above;
}

}  // namespace memmodel::step
