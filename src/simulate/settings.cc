// Reads PYTORCH_ALLOC_CONF. Mirrors torch 2.11, c10/core/AllocatorConfig.cpp
// (ConfigTokenizer, AcceleratorAllocatorConfig::parseArgs) and
// c10/cuda/CUDAAllocatorConfig.cpp.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

#include "memmodel/allocator_settings.h"

namespace memmodel {
namespace {

constexpr Bytes kLargestMegabytes = Bytes{1} << 30;  // 2^50 bytes

// "key1:val1,key2:[a:b]" -> key1 : val1 , key2 : [ a : b ]
std::vector<std::string> Tokenize(std::string_view conf) {
  std::vector<std::string> tokens;
  std::string word;
  const auto flush = [&] {
    if (!word.empty()) tokens.push_back(std::move(word));
    word.clear();
  };
  for (const char c : conf) {
    if (c == ',' || c == ':' || c == '[' || c == ']') {
      flush();
      tokens.emplace_back(1, c);
    } else if (std::string_view(" \t\n\v\f\r").find(c) == std::string_view::npos) {
      word += c;
    }
  }
  flush();
  return tokens;
}

bool IsPowerOfTwo(Bytes value) { return value > 0 && (value & (value - 1)) == 0; }

class Parser {
 public:
  explicit Parser(std::string_view conf) : conf_(conf), tokens_(Tokenize(conf)) {}

  Result<AllocatorSettings> Run() {
    // torch looks for large_segment_size_mb in a pass of its own, since the
    // checks of other keys depend on it.
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      if (tokens_[at_] == "large_segment_size_mb") {
        if (Status status = Key(); !status.ok()) return status;
        settings_.max_non_split_rounding = settings_.large_segment_size;
      }
    }
    for (at_ = 0; at_ < tokens_.size(); ++at_) {
      if (Status status = Key(); !status.ok()) return status;
      ++at_;
      if (at_ < tokens_.size() && tokens_[at_] != ",") return Expected("','");
    }
    return settings_;
  }

 private:
  [[nodiscard]] Status Error(const std::string& what) const {
    return Status::InvalidArgument("allocator setting '" + conf_ + "': " + what);
  }
  [[nodiscard]] Status Expected(const std::string& what) const {
    std::string text = "expected " + what;
    if (at_ < tokens_.size()) {
      text.append(", found '").append(tokens_[at_]).append("'");
    } else {
      text.append(" at the end");
    }
    return Error(text);
  }
  // Steps over the next token, which must be `token`.
  Status Take(std::string_view token) {
    ++at_;
    if (at_ < tokens_.size() && tokens_[at_] == token) return {};
    std::string what = "'";
    what.append(token).append("' after '").append(tokens_[at_ - 1]).append("'");
    return Expected(what);
  }

  // The leading digits of the next token, as std::stoull reads them.
  Status Number(Bytes* value) {
    ++at_;
    if (at_ >= tokens_.size()) return Expected("a number");
    const std::string& text = tokens_[at_];
    const auto read = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (read.ec == std::errc::result_out_of_range && text[0] != '-') {
      *value = kLargestMegabytes;
    } else if (read.ec != std::errc() || *value < 0) {
      return Expected("a number");
    }
    return {};
  }
  Status Fraction(double* value) {
    ++at_;
    if (at_ >= tokens_.size()) return Expected("a number");
    const char* text = tokens_[at_].c_str();
    char* end = nullptr;
    *value = std::strtod(text, &end);
    return end == text ? Expected("a number") : Status();
  }
  Status Boolean(bool* value) {
    ++at_;
    if (at_ >= tokens_.size() || (tokens_[at_] != "True" && tokens_[at_] != "False")) {
      return Expected("True or False");
    }
    *value = tokens_[at_] == "True";
    return {};
  }
  Status Megabytes(std::string_view key, Bytes least, Bytes* bytes) {
    Bytes value = 0;
    if (Status status = Number(&value); !status.ok()) return status;
    if (value < least) {
      return Error(std::string(key) + " is " + std::to_string(value) + ", must be at least " +
                   std::to_string(least));
    }
    *bytes = std::min(value, kLargestMegabytes) * kMiB;
    return {};
  }

  // Reads key, colon and value at at_; leaves at_ on the last token of the value.
  Status Key() {
    const std::string key = tokens_[at_];
    const std::vector<std::string_view>& keys = AllocatorSettingKeys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      std::string known;
      for (const std::string_view name : keys) known += (known.empty() ? "" : ", ") + std::string(name);
      return Error("unknown key '" + key + "'; known are " + known);
    }
    if (Status status = Take(":"); !status.ok()) return status;
    const Bytes large_mb = settings_.large_segment_size / kMiB;
    if (key == "large_segment_size_mb") return Megabytes(key, 11, &settings_.large_segment_size);
    if (key == "max_split_size_mb") return Megabytes(key, large_mb, &settings_.max_split_size);
    if (key == "max_non_split_rounding_mb") {
      return Megabytes(key, large_mb, &settings_.max_non_split_rounding);
    }
    if (key == "garbage_collection_threshold") {
      double value = 0;
      if (Status status = Fraction(&value); !status.ok()) return status;
      if (!(value > 0 && value < 1)) return Error(key + " must lie in (0, 1)");
      settings_.garbage_collection_threshold = value;
      return {};
    }
    if (key == "per_process_memory_fraction") {
      double value = 0;
      if (Status status = Fraction(&value); !status.ok()) return status;
      if (!(value >= 0 && value <= 1)) return Error(key + " must lie in [0, 1]");
      settings_.per_process_memory_fraction = value;
      return {};
    }
    if (key == "roundup_power2_divisions") return Divisions();
    if (key == "expandable_segments") return Boolean(&settings_.expandable_segments);
    if (key == "backend") {
      ++at_;
      if (at_ >= tokens_.size()) return Expected("native");
      if (tokens_[at_] == "native") return {};
      return Error("backend '" + tokens_[at_] + "' is not this allocator; only native is simulated");
    }
    // Pinned host memory and locking: no effect on device memory.
    ++at_;
    return at_ < tokens_.size() ? Status() : Expected("a value");
  }

  Status Divisions() {
    auto& table = settings_.roundup_power2_divisions;
    if (at_ + 1 < tokens_.size() && tokens_[at_ + 1] == "[") {
      ++at_;
      return DivisionsList();
    }
    Bytes value = 0;
    if (Status status = Number(&value); !status.ok()) return status;
    if (!IsPowerOfTwo(value) || value > kLargestMegabytes) {
      return Error("roundup_power2_divisions must be a power of 2");
    }
    table.fill(static_cast<std::int32_t>(value));
    return {};
  }

  // [256:1,512:2,>:4]. The first size also fills what is below it; '>' fills
  // what is above the size before it.
  Status DivisionsList() {
    auto& table = settings_.roundup_power2_divisions;
    bool first = true;
    std::size_t last_index = 0;
    if (at_ + 1 < tokens_.size() && tokens_[at_ + 1] == "]") {
      ++at_;
      return {};
    }
    for (;;) {
      ++at_;
      if (at_ >= tokens_.size()) return Expected("a size in MiB or '>'");
      const bool rest = tokens_[at_] == ">";
      Bytes interval = 0;
      if (!rest) {
        --at_;
        if (Status status = Number(&interval); !status.ok()) return status;
        if (!IsPowerOfTwo(interval)) {
          return Error("the sizes in roundup_power2_divisions must be powers of 2");
        }
      }
      if (Status status = Take(":"); !status.ok()) return status;
      Bytes value = 0;
      if (Status status = Number(&value); !status.ok()) return status;
      if ((value != 0 && !IsPowerOfTwo(value)) || value > kLargestMegabytes) {
        return Error("roundup_power2_divisions must be powers of 2, or 0 for none");
      }
      const auto divisions = static_cast<std::int32_t>(value);
      if (rest) {
        std::fill(table.begin() + static_cast<std::ptrdiff_t>(std::min(last_index + 1, table.size())),
                  table.end(), divisions);
      } else {
        const std::size_t index =
            std::min<std::size_t>(std::bit_width(static_cast<std::uint64_t>(interval)) - 1,
                                  table.size() - 1);
        if (first) std::fill_n(table.begin(), index, divisions);
        first = false;
        table[index] = divisions;
        last_index = index;
      }
      ++at_;
      if (at_ < tokens_.size() && tokens_[at_] == "]") return {};
      if (at_ >= tokens_.size() || tokens_[at_] != ",") return Expected("',' or ']'");
    }
  }

  std::string conf_;
  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
  AllocatorSettings settings_;
};

}  // namespace

const std::vector<std::string_view>& AllocatorSettingKeys() {
  static const std::vector<std::string_view> keys = {
      "backend",
      "expandable_segments",
      "garbage_collection_threshold",
      "graph_capture_record_stream_reuse",
      "large_segment_size_mb",
      "max_non_split_rounding_mb",
      "max_split_size_mb",
      "per_process_memory_fraction",
      "pinned_num_register_threads",
      "pinned_reserve_segment_size_mb",
      "pinned_use_background_threads",
      "pinned_use_cuda_host_register",
      "release_lock_on_cudamalloc",
      "roundup_power2_divisions",
  };
  return keys;
}

bool AllocatorSettings::IsValid(std::string* reason) const {
  const auto fail = [&](const std::string& why) {
    if (reason != nullptr) *reason = why;
    return false;
  };
  const std::string least = std::to_string(large_segment_size);
  if (large_segment_size <= 10 * kMiB || large_segment_size % kMiB != 0) {
    return fail("large_segment_size is " + least + ", must be whole MiB above 10");
  }
  if (max_split_size < large_segment_size) {
    return fail("max_split_size is " + std::to_string(max_split_size) +
                ", must be at least the large segment size " + least);
  }
  if (max_non_split_rounding < large_segment_size) {
    return fail("max_non_split_rounding is " + std::to_string(max_non_split_rounding) +
                ", must be at least the large segment size " + least);
  }
  if (!(garbage_collection_threshold >= 0 && garbage_collection_threshold < 1)) {
    return fail("garbage_collection_threshold must lie in [0, 1)");
  }
  if (!(per_process_memory_fraction >= 0 && per_process_memory_fraction <= 1)) {
    return fail("per_process_memory_fraction must lie in [0, 1]");
  }
  for (const std::int32_t divisions : roundup_power2_divisions) {
    if (divisions != 0 && !IsPowerOfTwo(divisions)) {
      return fail("roundup_power2_divisions holds " + std::to_string(divisions) +
                  ", must be 0 or a power of 2");
    }
  }
  return true;
}

Result<AllocatorSettings> ParseAllocatorSettings(std::string_view conf) {
  return Parser(conf).Run();
}

std::string AllocatorConfFromEnvironment() {
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "";
}

}  // namespace memmodel
