// Shape expressions of torch.export archives, as text: sympy's srepr, such as
// "Mul(Integer(4), Symbol('s77', positive=True, integer=True))", or its plain
// form, "4*s77", which older torch wrote.
#ifndef MEMMODEL_SRC_STEP_PT2_SYMBOLIC_H_
#define MEMMODEL_SRC_STEP_PT2_SYMBOLIC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace memmodel::step {

using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

// The symbol's name if `expression` is one bare symbol.
std::optional<std::string> BareSymbol(std::string_view expression);

// The expression's value; nullopt if it names a symbol without a value or a
// function that is not known, is not a whole number, overflows, or is not an
// expression at all.
std::optional<std::int64_t> EvaluateExpression(std::string_view expression,
                                               const SymbolValues& values);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_SYMBOLIC_H_
