#include "memmodel/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

namespace memmodel {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 14> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", 1024.0},
    {"kib", 1024.0},
    {"kb", 1e3},
    {"m", 1048576.0},
    {"mib", 1048576.0},
    {"mb", 1e6},
    {"g", 1073741824.0},
    {"gib", 1073741824.0},
    {"gb", 1e9},
    {"t", 1099511627776.0},
    {"tib", 1099511627776.0},
    {"tb", 1e12},
}};
constexpr double kLargest = 4611686018427387904.0;  // 2^62

}  // namespace

Result<Bytes> ParseBytes(std::string_view text) {
  std::string quoted = "'";
  quoted.append(text.substr(0, 40)).push_back('\'');
  const Status bad = Status::InvalidArgument(
      quoted + " is not a size: write a number and a unit, such as 24G, 24GiB (both 24*2^30), "
               "24GB (24*10^9) or 800M");
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.')) {
    ++digits;
  }
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + digits, number,
                                      std::chars_format::fixed);
  if (digits == 0 || parsed.ec != std::errc() || parsed.ptr != text.data() + digits) return bad;
  std::string unit;
  for (char c : text.substr(digits)) {
    if (c == ' ' && unit.empty()) continue;
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Unit& candidate : kUnits) {
    if (candidate.name != unit) continue;
    const double bytes = number * candidate.bytes;
    if (!(bytes <= kLargest)) {
      return Status::InvalidArgument(quoted + " is more than 2^62 bytes");
    }
    return static_cast<Bytes>(std::llround(bytes));
  }
  return bad;
}

std::string FormatBytes(Bytes bytes) {
  constexpr std::array<const char*, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::fabs(value) >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  std::array<char, 40> text{};
  const int decimals = unit == 0 ? 0 : std::fabs(value) < 10 ? 3 : std::fabs(value) < 100 ? 2 : 1;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, kNames[unit]);
  return text.data();
}

}  // namespace memmodel
