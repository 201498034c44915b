#include "src/core/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace memmodel {
namespace {

std::string Letters(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.' || c == ' ') continue;
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

// Insertions, deletions, substitutions and swaps of neighbours (optimal string
// alignment), three rows at a time.
std::size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::move(last);
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> NearestName(std::string_view name, std::span<const std::string> names) {
  const std::string wanted = Letters(name.substr(0, 100));
  if (wanted.empty()) return std::nullopt;
  std::optional<std::string> nearest;
  std::optional<std::string> begins;  // with what was written
  std::size_t smallest = 0;
  for (const std::string& candidate : names) {
    const std::string letters = Letters(candidate);
    const std::size_t distance = EditDistance(wanted, letters);
    if (distance == 0) return candidate;
    if (!begins && wanted.size() >= 3 && letters.starts_with(wanted)) begins = candidate;
    if (3 * distance > std::max(wanted.size(), letters.size())) continue;
    if (!nearest || distance < smallest) {
      nearest = candidate;
      smallest = distance;
    }
  }
  return begins ? begins : nearest;
}

std::string DidYouMean(std::string_view name, std::span<const std::string> names) {
  const std::optional<std::string> nearest = NearestName(name, names);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace memmodel
