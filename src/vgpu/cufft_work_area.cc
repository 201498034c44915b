// A transform is a sequence of kernels, each along one dimension. A size that one
// kernel handles needs no memory between kernels; what needs more takes one buffer
// that all dimensions share:
//
//   complex signals          the whole batch, once, if any dimension takes more
//   real signals, last size
//     one kernel             the spectrum, if an outer dimension takes more
//     even                   transformed as complex signals of half the length: those
//                            halves, or the spectrum (a half and one more element) if
//                            a half or an outer dimension takes more
//     odd                    two signals of the batch transformed as one complex one:
//                            the pairs twice, the second time from a multiple of 1024 bytes
//
// Example: 7 real signals of 148 floats. 148 has no kernel of its own and its half
// 74 takes more than one, so the spectrum is kept: 7 * 75 * 8 = 4200 bytes.
#include "src/vgpu/cufft_work_area.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

namespace memmodel::vgpu {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  // products of sizes fit 64 bits
constexpr std::int64_t kMaxRange = std::int64_t{1} << 20;

std::int64_t LargestPrime(std::int64_t n) {
  std::int64_t largest = 1;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(n, largest);
}

std::int64_t RoundUp(std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }

// Bluestein's algorithm, for primes that no kernel has a factor for, fits one
// kernel up to this size.
std::int64_t BluesteinLimit(int real_bytes) {
  return real_bytes == 4 ? 4096 : real_bytes == 8 ? 2048 : 0;
}
constexpr std::int64_t kLargestFactor = 127;

// These sizes go through one kernel only above some batch between 65 and 1000.
bool DependsOnBatch(const FftPlan& plan) {
  return plan.real_bytes == 4 && plan.sizes.size() == 1 && plan.batch > 64 &&
         (plan.sizes[0] == 32768 ||
          (plan.sizes[0] == 65536 && plan.transform != Transform::kComplex));
}

// Plans of several dimensions that were measured; of one, the tables say it.
bool Measured(const FftPlan& plan) {
  if (plan.sizes.size() == 1) return true;
  if (std::ranges::find(plan.sizes, 1) != plan.sizes.end()) return false;
  return plan.layout.empty() ||
         (plan.real_bytes == 4 &&
          (plan.layout == "-padded" || (plan.layout == "-columns" && plan.sizes.size() == 2)));
}

std::optional<std::int64_t> ReadNumber(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Result<FftSizes> FftSizes::Parse(const std::string& text) {
  const auto bad = [](const std::string& line) {
    return Status::BadInput("sizes of cuFFT: cannot read the line \"" + line.substr(0, 60) + "\"");
  };
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  constexpr std::string_view kHead = "# memmodel cuFFT sizes 1; compute capability ";
  if (!line.starts_with(kHead)) return bad(line);
  FftSizes sizes;
  const std::string_view rest = std::string_view(line).substr(kHead.size());
  const auto capability = ReadNumber(rest.substr(0, rest.find(';')));
  if (!capability || *capability > 1000) return bad(line);
  sizes.compute_capability_ = static_cast<int>(*capability);
  while (std::getline(in, line)) {
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string place, kernels, word;
    int real_bytes = 0;
    if (!(words >> place >> real_bytes >> kernels) || (kernels != "one" && kernels != "more")) {
      return bad(line);
    }
    while (words >> word) {
      const std::size_t dash = word.find('-');
      const auto first = ReadNumber(std::string_view(word).substr(0, dash));
      const auto last =
          dash == std::string::npos ? first : ReadNumber(std::string_view(word).substr(dash + 1));
      if (!first || !last || *last < *first || *last - *first > kMaxRange) return bad(line);
      for (std::int64_t n = *first; n <= *last; ++n) {
        sizes.one_kernel_[{place, real_bytes}][n] = kernels == "one";
      }
    }
  }
  return sizes;
}

std::optional<bool> FftSizes::TakesOneKernel(const std::string& place, int real_bytes,
                                             std::int64_t size) const {
  if (const auto table = one_kernel_.find({place, real_bytes}); table != one_kernel_.end()) {
    if (const auto found = table->second.find(size); found != table->second.end()) {
      return found->second;
    }
  }
  // Where measured sizes have no exception, those between them follow.
  if (size > BluesteinLimit(real_bytes)) return std::nullopt;
  const std::int64_t prime = LargestPrime(size);
  if (place == "c2c" && (prime > kLargestFactor || (real_bytes == 4 && prime <= 7))) return true;
  if ((place == "r2c" || place == "c2r") && size > 128 && prime > 31) return false;
  return std::nullopt;
}

std::optional<std::int64_t> FftSizes::WorkArea(const FftPlan& plan) const {
  if (plan.sizes.empty() || plan.batch < 1 || !Measured(plan)) return std::nullopt;
  std::int64_t all = plan.batch;  // so far
  for (const std::int64_t size : plan.sizes) {
    if (size < 1 || size > kMaxSize / all) return std::nullopt;
    all *= size;
  }
  if (DependsOnBatch(plan)) return std::nullopt;

  const std::int64_t complex_bytes = 2 * std::int64_t{plan.real_bytes};
  const std::int64_t last = plan.sizes.back();
  const std::int64_t rows = all / last / plan.batch;
  bool outer_take_more = false;
  for (std::size_t i = 0; i + 1 < plan.sizes.size(); ++i) {
    const auto one = TakesOneKernel("c2c-strided", plan.real_bytes, plan.sizes[i]);
    if (!one) return std::nullopt;
    outer_take_more |= !*one;
  }
  const std::string place = plan.transform == Transform::kComplex         ? "c2c"
                            : plan.transform == Transform::kRealToComplex ? "r2c"
                                                                          : "c2r";
  // Of several dimensions of complex signals the last one is as if an outer one, that
  // came first, had packed them: 64 columns of 145 take a buffer, of 28 x 145 none.
  const bool inner_is_packed = plan.transform == Transform::kComplex && plan.sizes.size() > 1;
  const auto one =
      TakesOneKernel(inner_is_packed ? place : place + plan.layout, plan.real_bytes, last);
  if (!one) return std::nullopt;
  if (plan.transform == Transform::kComplex) {
    return *one && !outer_take_more ? 0 : all * complex_bytes;
  }
  const std::int64_t spectrum = plan.batch * rows * (last / 2 + 1) * complex_bytes;
  if (*one) return outer_take_more ? spectrum : 0;

  if (last % 2 == 0) {
    // Beyond it Bluestein's algorithm for the half needs more, sometimes.
    if (last > BluesteinLimit(plan.real_bytes) && LargestPrime(last) > kLargestFactor) {
      return std::nullopt;
    }
    const auto half = TakesOneKernel("c2c", plan.real_bytes, last / 2);
    if (!half) return std::nullopt;
    return *half && !outer_take_more ? all / 2 * complex_bytes : spectrum;
  }
  const auto whole = TakesOneKernel("c2c", plan.real_bytes, last);
  if (!whole) return std::nullopt;
  const std::int64_t pairs = (plan.batch + 1) / 2 * rows * complex_bytes;
  std::int64_t second = pairs * (*whole ? last : last + 1);
  // Going back, the outer dimensions come first and are kept there.
  if (plan.transform == Transform::kComplexToReal && outer_take_more) {
    second = std::max(second, spectrum);
  }
  return pairs * last + RoundUp(second);
}

}  // namespace memmodel::vgpu
