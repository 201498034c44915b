// Lines of at most 80 columns.
#ifndef MEMMODEL_SRC_REPORT_TEXT_H_
#define MEMMODEL_SRC_REPORT_TEXT_H_

#include <string>
#include <string_view>

namespace memmodel {

inline constexpr std::size_t kColumns = 80;

// `text` broken at spaces to lines of at most kColumns; the first starts with
// `first`, the others with as many spaces. A word that is longer than a line is
// kept whole, so that it can be copied. Each line ends in a newline.
std::string Wrap(std::string_view first, std::string_view text);

// `text` with spaces to `width` columns, cut with "..." in its middle if it is
// longer. Columns are characters of UTF-8.
std::string PadRight(std::string_view text, std::size_t width);
std::string PadLeft(std::string_view text, std::size_t width);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_REPORT_TEXT_H_
