#include "src/report/text.h"

#include <algorithm>

namespace memmodel {
namespace {

std::size_t Columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

// Text of bytes that are no plain letters (paths may hold anything) is left whole.
std::string Shorten(std::string_view text, std::size_t width) {
  if (Columns(text) <= width || Columns(text) != text.size() || width < 8) return std::string(text);
  const std::size_t end = (width - 3) / 2;
  const std::size_t start = width - 3 - end;
  return std::string(text.substr(0, start)) + "..." + std::string(text.substr(text.size() - end));
}

}  // namespace

std::string Wrap(std::string_view first, std::string_view text) {
  std::string result(first);
  const std::size_t indent = Columns(first);
  std::size_t column = indent;
  bool line_is_empty = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!line_is_empty && column + 1 + Columns(word) > kColumns) {
      result += '\n';
      result.append(indent, ' ');
      column = indent;
      line_is_empty = true;
    }
    if (!line_is_empty) {
      result += ' ';
      ++column;
    }
    result += word;
    column += Columns(word);
    line_is_empty = false;
  }
  result += '\n';
  return result;
}

std::string PadRight(std::string_view text, std::size_t width) {
  std::string result = Shorten(text, width);
  result.append(width - std::min(width, Columns(result)), ' ');
  return result;
}

std::string PadLeft(std::string_view text, std::size_t width) {
  const std::string shown = Shorten(text, width);
  return std::string(width - std::min(width, Columns(shown)), ' ') + shown;
}

}  // namespace memmodel
