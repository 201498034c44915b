// Example: "fwd f32 8 3 ..." at batch 1 and "fwd f32 64 3 ..." at batch 8 are one
// family, N = 8 b: eight frames a sample. At batch 2 its key begins "fwd f32 16 3".
#include "src/model/convolution_keys.h"

#include <charconv>
#include <string_view>

#include "src/model/size_rule.h"

namespace memmodel {
namespace {

constexpr std::int64_t kLargest = INT32_MAX;

// Splits a key into its two words and its numbers; false if it is no key.
bool Split(std::string_view key, std::string* words, std::vector<std::int64_t>* numbers) {
  std::size_t end = key.find(' ');
  if (end == std::string_view::npos) return false;
  end = key.find(' ', end + 1);
  if (end == std::string_view::npos) return false;
  *words = key.substr(0, end);
  while (end < key.size()) {
    std::int64_t value = 0;
    const auto r = std::from_chars(key.data() + end + 1, key.data() + key.size(), value);
    const auto stop = static_cast<std::size_t>(r.ptr - key.data());
    if (r.ec != std::errc() || (stop < key.size() && key[stop] != ' ')) return false;
    if (value < 0 || value > kLargest) return false;
    numbers->push_back(value);
    end = stop;
  }
  return numbers->size() == 15 || numbers->size() == 20;
}

}  // namespace

std::optional<KeyFamily> KeyFamily::Of(const std::vector<BatchKey>& keys) {
  KeyFamily family;
  std::vector<std::vector<BatchBytes>> points;  // of each number
  for (const BatchKey& sample : keys) {
    std::string words;
    std::vector<std::int64_t> numbers;
    if (sample.key == nullptr || !Split(*sample.key, &words, &numbers)) return std::nullopt;
    if (points.empty()) {
      family.words_ = words;
      points.resize(numbers.size());
    }
    if (words != family.words_ || numbers.size() != points.size()) return std::nullopt;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      points[i].push_back({sample.batch, numbers[i]});
    }
  }
  if (keys.size() < 2) return std::nullopt;
  for (const std::vector<BatchBytes>& of_number : points) {
    const SizeRule rule = FitSizeRule(of_number);
    if (rule.kind != SizeRule::Kind::kConstant && rule.kind != SizeRule::Kind::kAffine) {
      return std::nullopt;
    }
    family.numbers_.push_back({rule.c0, rule.c1});
  }
  return family;
}

std::optional<std::string> KeyFamily::At(std::int64_t batch) const {
  std::string key = words_;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const __int128 value = numbers_[i].c0 + static_cast<__int128>(numbers_[i].c1) * batch;
    if (value < (i == 0 ? 1 : 0) || value > kLargest) return std::nullopt;
    key.append(" ").append(std::to_string(static_cast<std::int64_t>(value)));
  }
  return key;
}

}  // namespace memmodel
