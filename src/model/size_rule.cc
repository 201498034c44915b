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

auto Key(const SizeRule& r) { return std::tie(r.kind, r.c0, r.c1, r.c2, r.last, r.pieces); }

}  // namespace

Bytes SizeRule::At(std::int64_t b) const {
  if (kind == Kind::kConstant) return c0;
  if (kind == Kind::kPlanned && b <= last) {
    const auto after = std::upper_bound(pieces.begin(), pieces.end(), b,
                                        [](auto batch, const Piece& p) { return batch < p.first; });
    const Piece& piece = *(after - 1);
    return Saturated(piece.bytes + static_cast<__int128>(piece.slope) * (b - piece.first));
  }
  if (points.empty() || c0 != 0 || c1 != 0) {
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
  if (ExactAt(b)) return {value, value};
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
  return std::lexicographical_compare(a.points.begin(), a.points.end(), b.points.begin(),
                                      b.points.end(), [](const BatchBytes& x, const BatchBytes& y) {
                                        return std::tie(x.batch, x.bytes) <
                                               std::tie(y.batch, y.bytes);
                                      });
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

SizeRule PlannedOf(const std::vector<BatchBytes>& points, const std::vector<Bytes>& answers) {
  SizeRule rule = TableOf(points);
  rule.kind = SizeRule::Kind::kPlanned;
  rule.last = static_cast<std::int64_t>(answers.size());
  for (std::size_t i = 0; i < answers.size();) {
    SizeRule::Piece piece{.first = static_cast<std::int64_t>(i) + 1, .bytes = answers[i]};
    std::size_t end = i + 1;
    if (end < answers.size()) piece.slope = answers[end] - answers[i];
    while (end < answers.size() && answers[end] - answers[end - 1] == piece.slope) ++end;
    // Two answers are always on a line; that one is worth a piece if it is flat or longer.
    if (end == i + 2 && piece.slope != 0) {
      piece.slope = 0;
      end = i + 1;
    }
    rule.pieces.push_back(piece);
    i = end;
  }
  return rule;
}

}  // namespace memmodel
