#include "src/vgpu/cudnn_stream_k.h"

#include <algorithm>
#include <array>
#include <bit>

// The rule, as cuDNN 9.19 answers it through its public interface: an engine
// can be given a target of 1 to 18 multiprocessors
// (CUDNN_ATTR_ENGINE_SM_COUNT_TARGET), and the workspace of the same plan under
// each target shows how the count of partial tiles follows from tiles and
// multiprocessors. What was read off there holds for a real GPU with the
// clusters that its driver says it can hold (cuOccupancyMaxActiveClusters).
//
// A convolution is a matrix product of M x N outputs over K:
//   forward          M = n*p*q, N = k/groups, K = c/groups * r*s
//   backward data    M = n*h*w, N = c/groups, K = k/groups * r*s
//   backward filter  M = k/groups, N = r*s * c/groups (each of the r*s padded
//                    to whole tiles), K = n*p*q
// tiled by TILE_SIZE and grouped into clusters of cluster_m x cluster_n thread
// blocks. T cluster tiles on U clusters: T/U whole waves run one tile a
// cluster; the rest, T%U tiles, is split along K over q clusters each, with
// q <= U/(T%U). Then rest*q partial cluster tiles of floats lie in the
// workspace, with a counter for each node of the binary reduction trees, 8
// more, one for the tile scheduler if there are more than two waves, and 127
// bytes for alignment.
//
// q is the least that makes the longest share of K shortest, among those that
// are worth their reduction. The main loop takes 32 floats or 64 halves of K an
// iteration. A reduction step costs as much as `step` iterations (smaller
// tiles: more iterations, since an iteration is shorter), and there are
// ceil(log2 q) of them. Without whole waves iterations/q + step*ceil(log2 q)
// is minimised, unless K gives nine or more shares of over 1024 elements: then
// there are as many as there can be. Behind whole waves the reduction is
// partly hidden, and q is allowed where the time saved pays for what is not
// (Tile::hidden); a share then has at least 128 elements of K.
//
// Example: wgrad, float, 16 x 256 x 14 x 14, 3x3, 256 channels out, on 132
// multiprocessors, tile 128x128, cluster 1x1: M = 256, N = 9*256 = 2304, so T =
// 2*18 = 36; no whole wave, q <= 132/36 = 3; K = 3136 = 98 iterations, step 13:
// q = 2 costs 49 + 13 = 62, q = 3 33 + 26 = 59: q = 3, 108 partial tiles of
// 65536 bytes, 108 counters (3 tree nodes for each of 36 tiles) and 8:
// 7077888 + 4*116 + 127 = 7078479 bytes.

namespace memmodel::vgpu {
namespace {

struct Tile {
  int m = 0, n = 0;
  double step = 0;  // cost of a reduction step in iterations of 32 floats; 0: not known
  // Least saving for 1, 2, 3 and 4 reduction steps behind whole waves, in
  // steps: what the library answers for 1 to 16 clusters.
  std::array<double, 4> hidden = {};
};

// By CUDNN_KNOB_TYPE_TILE_SIZE.
constexpr std::array<Tile, 20> kTiles = {{
    {128, 128, 13.15, {.63, 1.59, 2.78, 3.96}},
    {128, 64, 17.15, {.56, 1.51, 2.71, 3.90}},
    {128, 32, 0, {}},
    {256, 128, 11.15, {.63, 1.67, 2.86, 4.02}},
    {256, 64, 13.15, {.63, 1.59, 2.78, 3.96}},
    {64, 64, 24.75, {.56, 1.52, 2.71, 3.92}},
    {128, 256, 11.15, {.63, 1.67, 2.86, 4.02}},
    {64, 128, 17.15, {.56, 1.51, 2.71, 3.90}},
    {64, 32, 0, {}},
    {64, 256, 13.15, {.63, 1.59, 2.78, 3.96}},
    {},
    {},
    {},
    {},
    {},
    {},
    {256, 32, 0, {}},
    {},
    {64, 192, 0, {}},
    {128, 192, 0, {}},
}};

constexpr std::int64_t Ceil(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int Steps(std::int64_t q) { return std::bit_width(static_cast<std::uint64_t>(q - 1)); }

// Nodes of the binary tree that adds up q partial tiles.
std::int64_t TreeNodes(std::int64_t q) {
  std::int64_t nodes = 0;
  while (q > 1) nodes += q = Ceil(q, 2);
  return nodes;
}

struct Problem {
  std::int64_t tiles = 0;        // cluster tiles
  std::int64_t iterations = 0;   // along K
  double exact = 0;              // the same, not rounded up where all of K is one sum
  std::int64_t per_share = 0;    // iterations of 1024 elements of K
  std::int64_t least_share = 1;  // iterations of 128 elements of K
  double step = 0;
  const Tile* tile = nullptr;
  bool slower_split = false;  // see below
};

// Seen on a GPU alone: a CPU's answers are for 18 multiprocessors at most.
constexpr std::int64_t kMostShares = 128;

// Without whole waves.
std::int64_t SplitAlone(const Problem& problem, std::int64_t most) {
  const std::int64_t large = std::min(most, problem.iterations / (problem.per_share + 1));
  if (large > 8) return std::min(large, kMostShares);
  // The kernel of 128x64 tiles for floats counts a split main loop as a tenth
  // slower, and a further step as a little cheaper.
  const double factor = problem.slower_split ? 1.1 : 1.0;
  const double step = problem.slower_split ? 15.5 : problem.step;
  std::int64_t best = 1;
  double least = static_cast<double>(problem.iterations);
  for (std::int64_t q = 2; q <= std::min(most, problem.iterations); ++q) {
    const double cost =
        factor * (static_cast<double>(Ceil(problem.iterations, q)) + step * Steps(q));
    if (cost < least) {
      least = cost;
      best = q;
    }
  }
  return best;
}

// Behind `waves` whole waves.
std::int64_t SplitRest(const Problem& problem, std::int64_t most, std::int64_t waves) {
  std::int64_t best = 1;
  std::int64_t share = problem.iterations;
  for (std::int64_t q = 2; q <= std::min(most, problem.iterations / problem.least_share); ++q) {
    const int steps = Steps(q);
    const double least =
        problem.step * (steps <= 4 ? problem.tile->hidden[static_cast<std::size_t>(steps - 1)]
                                   : static_cast<double>(steps));
    const double whole = problem.exact;
    if (whole - 0.7 * whole / static_cast<double>(q) < least) continue;
    // A tenth slower as a whole: (waves + 1) > 1.1 * (waves + 1/q).
    if (problem.slower_split && 10 * q - 11 <= waves * q) continue;
    if (Ceil(problem.iterations, q) < share) {
      share = Ceil(problem.iterations, q);
      best = q;
    }
  }
  return best;
}

}  // namespace

std::optional<std::int64_t> StreamKBytes(const ConvolutionShape& shape, const EngineChoice& choice,
                                         std::int64_t clusters) {
  const bool known =
      choice.tile_size >= 0 && choice.tile_size < static_cast<std::int64_t>(kTiles.size()) &&
      kTiles[static_cast<std::size_t>(choice.tile_size)].m > 0 && choice.tile_k >= 0 &&
      choice.cluster_m > 0 && choice.cluster_n > 0 && clusters > 0 && shape.groups > 0 &&
      (choice.workspace == 0 || choice.workspace == 1);
  const bool floats = shape.type == ElementType::kFloat;
  bool engine = false;
  switch (shape.op) {
    case ConvolutionOp::kForward:
      engine = choice.engine == (floats ? 67 : 62);
      break;
    case ConvolutionOp::kBackwardData:
      engine = choice.engine == (floats ? 71 : 67);
      break;
    case ConvolutionOp::kBackwardFilter:
      engine = choice.engine == (floats ? 68 : 65);
      break;
  }
  if (!known || !engine) return std::nullopt;

  Problem problem;
  problem.tile = &kTiles[static_cast<std::size_t>(choice.tile_size)];
  const Tile& tile = *problem.tile;
  const std::int64_t cluster = choice.cluster_m * choice.cluster_n;
  const std::int64_t depth = floats || choice.tile_k == 0 ? 32 : 64;
  // An iteration of 64 halves counts as two of 32 floats, one of bfloat16 as a
  // quarter.
  problem.step = tile.step;
  if (shape.type == ElementType::kBFloat16) problem.step = 4 * tile.step;
  if (shape.type == ElementType::kHalf && depth == 64) problem.step = tile.step / 2;
  problem.per_share = 1024 / depth;
  problem.least_share = 128 / depth;
  problem.slower_split = depth == 32 && choice.tile_size == 1 &&
                         shape.type != ElementType::kBFloat16 &&
                         shape.op != ConvolutionOp::kBackwardData;
  // Groups of few channels share a tile, as many as fit it in both channels.
  const std::int64_t c = shape.c / shape.groups;
  const std::int64_t k = shape.k / shape.groups;
  if (c < 1 || k < 1) return std::nullopt;
  const std::int64_t fitting = shape.op == ConvolutionOp::kBackwardFilter
                                   ? std::min(tile.m / k, tile.n / c)
                                   : tile.n / std::max(k, c);
  const std::int64_t packed = std::clamp<std::int64_t>(fitting, 1, shape.groups);
  std::int64_t m_tiles = 0;
  std::int64_t n_tiles = 0;
  if (shape.op == ConvolutionOp::kForward) {
    m_tiles = Ceil(shape.n * shape.p * shape.q, tile.m);
    n_tiles = Ceil(packed * k, tile.n);
    problem.iterations = shape.r * shape.s * Ceil(packed * c, depth);
  } else if (shape.op == ConvolutionOp::kBackwardData) {
    m_tiles = Ceil(shape.n * shape.h * shape.w, tile.m);
    n_tiles = Ceil(packed * c, tile.n);
    problem.iterations = shape.r * shape.s * Ceil(packed * k, depth);
  } else {
    m_tiles = Ceil(packed * k, tile.m);
    n_tiles = shape.r * shape.s * Ceil(packed * c, tile.n);
    problem.iterations = Ceil(shape.n * shape.p * shape.q, depth);
    problem.exact = static_cast<double>(shape.n * shape.p * shape.q) / static_cast<double>(depth);
  }
  if (problem.exact == 0) problem.exact = static_cast<double>(problem.iterations);
  problem.tiles = Ceil(m_tiles, choice.cluster_m) * Ceil(n_tiles, choice.cluster_n) *
                  Ceil(shape.groups, packed);

  const std::int64_t waves = problem.tiles / clusters;
  const std::int64_t rest = problem.tiles % clusters;
  std::int64_t q = 1;
  if (rest > 0 && choice.workspace == 0) {
    q = waves == 0 ? SplitAlone(problem, clusters / rest)
                   : SplitRest(problem, clusters / rest, waves);
  }
  std::int64_t counters = problem.tiles > 2 * clusters ? 1 : 0;
  std::int64_t partial = 0;
  if (q > 1) {
    partial = rest * q * cluster * tile.m * tile.n * 4;
    counters += 8 + rest * cluster * TreeNodes(q);
  }
  return counters == 0 ? 0 : partial + 4 * counters + 127;
}

std::int64_t DevicelessClusters(const EngineChoice& choice) {
  const std::int64_t cluster = choice.cluster_m * choice.cluster_n;
  return cluster > 0 ? 18 / cluster : 0;
}

}  // namespace memmodel::vgpu
