#include "src/model/size_rule.h"

#include <algorithm>
#include <tuple>

namespace memmodel {
namespace {

// Saturates: no device holds a larger request, and sums of millions stay exact.
constexpr __int128 kLargestSize = SizeRule::kLargest;

Bytes Saturated(__int128 value) {
  return static_cast<Bytes>(std::clamp<__int128>(value, 0, kLargestSize));
}

// a + (b - a) * part / whole, rounded to nearest.
Bytes Between(Bytes a, Bytes b, std::int64_t part, std::int64_t whole) {
  const __int128 scaled = static_cast<__int128>(b - a) * part;
  const __int128 half = scaled >= 0 ? whole / 2 : -(whole / 2);
  return Saturated(a + (scaled + half) / whole);
}

bool PassesThrough(const SizeRule& rule, const std::vector<BatchBytes>& points) {
  return std::all_of(points.begin(), points.end(),
                     [&](const BatchBytes& p) { return rule.At(p.batch) == p.bytes; });
}

bool FitLine(const std::vector<BatchBytes>& points, SizeRule* rule) {
  const BatchBytes& first = points.front();
  const BatchBytes& last = points.back();
  const std::int64_t rise = last.bytes - first.bytes;
  const std::int64_t run = last.batch - first.batch;
  if (rise % run != 0) return false;
  rule->kind = SizeRule::Kind::kAffine;
  rule->c1 = rise / run;
  const __int128 c0 = first.bytes - static_cast<__int128>(rule->c1) * first.batch;
  if (c0 < -kLargestSize || c0 > kLargestSize) return false;
  rule->c0 = static_cast<Bytes>(c0);
  return PassesThrough(*rule, points);
}

// Newton's divided differences; all must be integers.
bool FitParabola(const std::vector<BatchBytes>& points, SizeRule* rule) {
  const BatchBytes& p = points[0];
  const BatchBytes& q = points[1];
  const BatchBytes& r = points[2];
  if ((q.bytes - p.bytes) % (q.batch - p.batch) != 0) return false;
  if ((r.bytes - q.bytes) % (r.batch - q.batch) != 0) return false;
  const std::int64_t pq = (q.bytes - p.bytes) / (q.batch - p.batch);
  const std::int64_t qr = (r.bytes - q.bytes) / (r.batch - q.batch);
  if ((qr - pq) % (r.batch - p.batch) != 0) return false;
  rule->kind = SizeRule::Kind::kQuadratic;
  const __int128 c2 = (qr - pq) / (r.batch - p.batch);
  const __int128 c1 = pq - c2 * (p.batch + q.batch);
  const __int128 c0 = p.bytes - c1 * p.batch - c2 * p.batch * p.batch;
  for (const __int128 c : {c0, c1, c2}) {
    if (c < -kLargestSize || c > kLargestSize) return false;
  }
  rule->c0 = static_cast<Bytes>(c0);
  rule->c1 = static_cast<Bytes>(c1);
  rule->c2 = static_cast<Bytes>(c2);
  return PassesThrough(*rule, points);
}

auto Key(const SizeRule& r) {
  return std::tuple(static_cast<char>(r.kind), r.c0, r.c1, r.c2, r.points.size());
}

}  // namespace

Bytes SizeRule::At(std::int64_t b) const {
  if (kind == Kind::kConstant) return c0;
  if (kind != Kind::kTable || c0 != 0 || c1 != 0) {
    return Saturated(c0 + static_cast<__int128>(c1) * b + static_cast<__int128>(c2) * b * b);
  }
  if (b <= points.front().batch || points.size() == 1) return points.front().bytes;
  std::size_t upper = 1;
  while (upper + 1 < points.size() && points[upper].batch < b) ++upper;
  const BatchBytes& low = points[upper - 1];
  const BatchBytes& high = points[upper];
  if (b > high.batch && high.bytes <= low.bytes) return high.bytes;
  return Between(low.bytes, high.bytes, b - low.batch, high.batch - low.batch);
}

ByteRange SizeRule::RangeAt(std::int64_t b) const {
  const Bytes value = At(b);
  if (kind != Kind::kTable) return {value, value};
  if (b <= points.front().batch) {
    return {b == points.front().batch ? value : 0, points.front().bytes};
  }
  const BatchBytes& last = points.back();
  if (b > last.batch) {
    const Bytes grown = Saturated(static_cast<__int128>(last.bytes) * b / last.batch);
    return {std::min(value, last.bytes), std::max(value, grown)};
  }
  std::size_t upper = 1;
  while (points[upper].batch < b) ++upper;
  if (points[upper].batch == b) return {value, value};
  return {std::min(points[upper - 1].bytes, points[upper].bytes),
          std::max(points[upper - 1].bytes, points[upper].bytes)};
}

bool operator<(const SizeRule& a, const SizeRule& b) {
  if (Key(a) != Key(b)) return Key(a) < Key(b);
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    const auto x = std::tuple(a.points[i].batch, a.points[i].bytes);
    const auto y = std::tuple(b.points[i].batch, b.points[i].bytes);
    if (x != y) return x < y;
  }
  return false;
}

SizeRule FitSizeRule(const std::vector<BatchBytes>& points) {
  SizeRule rule;
  rule.c0 = points.front().bytes;
  if (points.size() > 1 && PassesThrough(rule, points)) return rule;
  if (points.size() > 1 && FitLine(points, &rule)) return rule;
  rule = {};
  if (points.size() > 3 && FitParabola(points, &rule)) return rule;
  return TableOf(points);
}

SizeRule TableOf(const std::vector<BatchBytes>& points) {
  SizeRule rule;
  if (points.size() < 2 || !FitLine(points, &rule)) rule = {};
  rule.kind = SizeRule::Kind::kTable;
  rule.points = points;
  return rule;
}

}  // namespace memmodel
