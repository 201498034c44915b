// The name that someone probably meant.
#ifndef MEMMODEL_SRC_CORE_NEAREST_H_
#define MEMMODEL_SRC_CORE_NEAREST_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace memmodel {

// The one of `names` with the smallest edit distance to `name` (case and the
// characters - _ . and space do not count), or the first that `name` is the
// start of. Nothing if none is near: more than a third of the letters differ.
std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> names);

// "; did you mean 'adamw'?", or "" if no name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string> names);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_NEAREST_H_
