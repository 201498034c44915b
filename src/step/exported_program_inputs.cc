// What an exported program says about its inputs, and whether given ones fit.
#include <algorithm>

#include "src/step/exported_program.h"

namespace memmodel::step {
namespace {

std::string Describe(const Dimension& dimension) {
  return dimension.value ? std::to_string(*dimension.value) : dimension.expression;
}

}  // namespace

std::vector<InputSpec> ExportedProgramModel::StoredInputs() const {
  std::vector<InputSpec> specs;
  for (const UserInput& input : inputs_) {
    InputSpec spec;
    spec.name = input.name;
    spec.dtype = input.meta.dtype;
    for (std::size_t i = 1; i < input.meta.sizes.size(); ++i) {
      const Dimension& size = input.meta.sizes[i];
      if (!size.value && !size.hint) return {};
      spec.shape.push_back(size.value ? *size.value : *size.hint);
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::optional<std::int64_t> ExportedProgramModel::FixedBatch() const {
  for (const UserInput& input : inputs_) {
    if (!input.meta.sizes[0].value) return std::nullopt;
  }
  return inputs_[0].meta.sizes[0].value;
}

// The sizes are checked here and not by the operators: a graph that was traced for
// one size often runs with another one and then does something else.
void ExportedProgramModel::CheckInputs(const std::vector<at::Tensor>& given) const {
  TORCH_CHECK(given.size() == inputs_.size(), "the exported program takes ", inputs_.size(),
              " tensors, ", given.size(), " were given");
  SymbolValues symbols;
  for (const bool bind : {true, false}) {  // symbols first, then what is made of them
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const UserInput& input = inputs_[i];
      TORCH_CHECK(given[i].dim() == static_cast<std::int64_t>(input.meta.sizes.size()), "input ",
                  input.name, ": the exported program takes ", input.meta.sizes.size(),
                  " dimensions, ", given[i].dim(), " were given");
      for (std::size_t d = 0; d < input.meta.sizes.size(); ++d) {
        const Dimension& size = input.meta.sizes[d];
        const std::int64_t found = given[i].size(static_cast<std::int64_t>(d));
        std::optional<std::int64_t> expected = size.value;
        if (!expected) {
          const auto symbol = BareSymbol(size.expression);
          if (bind) {
            if (symbol) symbols.emplace(*symbol, found);
            continue;
          }
          expected = EvaluateExpression(size.expression, symbols);
        }
        TORCH_CHECK(!expected || *expected == found, "input ", input.name, ": dimension ", d,
                    " of the exported program is ", Describe(size), ", ", found,
                    " was given; export the model with dynamic_shapes={'", input.name, "': {", d,
                    ": torch.export.Dim('", d == 0 ? "batch" : "size", "')}}");
      }
    }
  }
  for (const auto& [symbol, value] : symbols) {
    const auto range = program_.ranges.find(symbol);
    if (range == program_.ranges.end()) continue;
    // A lower limit of 2 only says that sizes 0 and 1 were not looked at.
    const bool below = range->second.min && *range->second.min > 2 && value < *range->second.min;
    const bool above = range->second.max && value > *range->second.max;
    TORCH_CHECK(!below && !above, "the exported program was made for sizes ",
                range->second.min.value_or(0), " to ", range->second.max.value_or(INT64_MAX), ", ",
                value, " was given");
  }
}

}  // namespace memmodel::step
