#include <charconv>
#include <set>

#include "memmodel/calibrate.h"

namespace memmodel {

Result<std::vector<std::int64_t>> ParseBatches(std::string_view text) {
  constexpr std::int64_t kLargest = 65536;
  std::set<std::int64_t> batches;
  const auto wrong = [&] {
    return Status::InvalidArgument("--batches '" + std::string(text) +
                                   "'; it is a list such as 1,2,8 or 1-64, of 1 to 65536");
  };
  std::string_view rest = text;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    std::int64_t first = 0, last = 0;
    const char* const end = item.data() + item.size();
    auto [at, error] = std::from_chars(item.data(), end, first);
    if (error != std::errc()) return wrong();
    last = first;
    if (at != end) {
      if (*at != '-') return wrong();
      const auto [stop, other] = std::from_chars(at + 1, end, last);
      if (other != std::errc() || stop != end) return wrong();
    }
    if (first < 1 || last < first || last > kLargest) return wrong();
    for (std::int64_t batch = first; batch <= last; ++batch) batches.insert(batch);
    if (item.size() == rest.size()) break;
    rest.remove_prefix(item.size() + 1);
  }
  return std::vector<std::int64_t>(batches.begin(), batches.end());
}

}  // namespace memmodel
