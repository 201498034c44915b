// The name that someone probably meant.
#ifndef MEMMODEL_SRC_CORE_NEAREST_H_
#define MEMMODEL_SRC_CORE_NEAREST_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace memmodel {

// The first of `names` that begins with `name` (of three letters or more), else
// the one with the smallest edit distance to it; case and - _ . space do not
// count. Nothing if none is near: more than a third of the letters differ.
std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> names);

// "; did you mean 'adamw'?", or "" if no name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> names);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_NEAREST_H_
