// Example: "fwd f32 8 3 ..." at batch 1 and "fwd f32 64 3 ..." at batch 8 are one
// family, N = 8 b: eight frames a sample. At batch 2 its key begins "fwd f32 16 3".
#include "src/model/key_family.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "src/model/size_rule.h"

namespace memmodel {
namespace {

constexpr std::string_view kDigits = "0123456789";

// Parts a key into its numbers and the texts around them; false if one is too large.
bool Split(std::string_view key, std::vector<std::string>* texts,
           std::vector<std::int64_t>* numbers) {
  while (true) {
    const std::size_t first = std::min(key.find_first_of(kDigits), key.size());
    texts->emplace_back(key.substr(0, first));
    key.remove_prefix(first);
    if (key.empty()) return true;
    const std::size_t end = std::min(key.find_first_not_of(kDigits), key.size());
    std::int64_t value = 0;
    const auto r = std::from_chars(key.data(), key.data() + end, value);
    if (r.ec != std::errc() || value > SizeRule::kLargest) return false;
    numbers->push_back(value);
    key.remove_prefix(end);
  }
}

}  // namespace

std::optional<KeyFamily> KeyFamily::Of(const std::vector<BatchKey>& keys) {
  if (keys.size() < 2) return std::nullopt;
  KeyFamily family;
  std::vector<std::vector<BatchBytes>> points;  // of each number
  for (const BatchKey& sample : keys) {
    std::vector<std::string> texts;
    std::vector<std::int64_t> numbers;
    if (sample.key == nullptr || !Split(*sample.key, &texts, &numbers)) return std::nullopt;
    if (family.texts_.empty()) {
      family.texts_ = texts;
      points.resize(numbers.size());
    }
    if (texts != family.texts_) return std::nullopt;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      points[i].push_back({sample.batch, numbers[i]});
    }
  }
  if (points.empty()) return std::nullopt;
  for (const std::vector<BatchBytes>& of_number : points) {
    const SizeRule rule = FitSizeRule(of_number);
    if (rule.kind != SizeRule::Kind::kConstant && rule.kind != SizeRule::Kind::kAffine) {
      return std::nullopt;
    }
    family.numbers_.push_back({rule.c0, rule.c1});
  }
  return family;
}

bool KeyFamily::constant() const {
  return std::all_of(numbers_.begin(), numbers_.end(), [](const Line& n) { return n.c1 == 0; });
}

std::optional<std::string> KeyFamily::At(std::int64_t batch) const {
  std::string key = texts_.front();
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const __int128 value = numbers_[i].c0 + static_cast<__int128>(numbers_[i].c1) * batch;
    if (value < (numbers_[i].c1 != 0 ? 1 : 0) || value > SizeRule::kLargest) return std::nullopt;
    key.append(std::to_string(static_cast<std::int64_t>(value))).append(texts_[i + 1]);
  }
  return key;
}

}  // namespace memmodel
