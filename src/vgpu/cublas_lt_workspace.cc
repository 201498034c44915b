#include "src/vgpu/cublas_lt_workspace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string_view>

namespace memmodel::vgpu {
namespace {

// Rows of that many bytes can be loaded and stored through tensor maps (cuTensorMapEncodeTiled).
constexpr std::int64_t kTensorMapAlignment = 16;
constexpr std::int64_t kSumBytes = 4;  // partial sums are float
// Of the GPU that was measured: the formulas of stream-K count blocks on so many.
constexpr std::int64_t kMeasuredMultiprocessors = 132;
constexpr int kMaxDepth = 200;  // of a tree; a damaged file is refused

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Name {
  std::string_view name;
  std::size_t numbers = 0;
};

// Formulas and how many numbers they take.
constexpr std::array<Name, 9> kFormulas = {{{"fixed", 1},
                                            {"counters", 2},
                                            {"parts", 1},
                                            {"vector", 1},
                                            {"split", 9},
                                            {"stream", 4},
                                            {"whole", 3},
                                            {"fill", 4},
                                            {"times", 4}}};
enum Formula { kFixed, kCounters, kParts, kVector, kSplit, kStream, kWhole, kFill, kTimes };

// Numbers that may be 0: those that no formula divides by.
bool MayBeZero(int formula, std::size_t number) {
  return formula == kFixed || (formula == kSplit && (number == 4 || number == 6));
}

constexpr std::array<std::array<std::int64_t, 2>, 6> kTiles = {
    {{64, 64}, {128, 128}, {128, 64}, {64, 128}, {128, 256}, {256, 128}}};

constexpr std::size_t kFeatures = 24;
constexpr std::array<std::string_view, kFeatures> kFeatureNames = {
    "m",       "n",       "k",       "batch",   "ta",       "tb",       "mn",       "mnk",
    "mn/k",    "m2",      "n2",      "k2",      "t64x64",   "r64x64",   "t128x128", "r128x128",
    "t128x64", "r128x64", "t64x128", "r64x128", "t128x256", "r128x256", "t256x128", "r256x128"};

std::array<double, kFeatures> Features(const Matmul& matmul, std::int64_t multiprocessors) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  // The largest power of 2 that divides it, up to 128.
  const auto multiple = [&](std::int64_t value) {
    return real(std::min<std::int64_t>(value & -value, 128));
  };
  const double mn = real(matmul.m) * real(matmul.n) * real(matmul.batch);
  std::array<double, kFeatures> features = {real(matmul.m),
                                            real(matmul.n),
                                            real(matmul.k),
                                            real(matmul.batch),
                                            matmul.transpose_a ? 1.0 : 0.0,
                                            matmul.transpose_b ? 1.0 : 0.0,
                                            mn,
                                            mn * real(matmul.k),
                                            mn / real(matmul.k),
                                            multiple(matmul.m),
                                            multiple(matmul.n),
                                            multiple(matmul.k)};
  std::size_t next = 12;
  for (const auto& [rows, columns] : kTiles) {
    const double waves = real(CeilDiv(matmul.m, rows) * CeilDiv(matmul.n, columns)) *
                         real(matmul.batch) / real(multiprocessors);
    features[next++] = waves;
    features[next++] = waves - std::floor(waves);
  }
  return features;
}

// Stream-K: how many tiles are partial sums where so many blocks run at once. All tiles are
// shared, or those alone that are left over after whole waves.
std::int64_t PartialTiles(int formula, std::int64_t number, std::int64_t tiles, std::int64_t blocks,
                          std::int64_t k) {
  const std::int64_t rest = tiles % blocks;
  switch (formula) {
    case kStream:  // at least `number` steps of 32 elements each
      return std::min(blocks, tiles * (CeilDiv(k, 32) / number));
    case kWhole:
      return tiles <= blocks ? blocks / tiles * tiles : blocks;
    case kFill:  // in at most `number` parts
      return rest == 0 ? 0 : std::min(blocks / rest, number) * rest;
    default:  // kTimes
      return number * rest;
  }
}

}  // namespace

std::int64_t MatmulTrees::Bytes(const Node& leaf, const Matmul& matmul,
                                std::int64_t multiprocessors) {
  const std::vector<std::int64_t>& x = leaf.numbers;
  const auto tiles = [&](std::int64_t rows, std::int64_t columns) {
    return CeilDiv(matmul.m, rows) * CeilDiv(matmul.n, columns);
  };
  switch (leaf.formula) {
    case kFixed:
      return x[0];
    case kCounters:  // of tiles whose partial sums are added up in place
      return 4 * tiles(x[0], x[1]);
    case kParts:
      return x[0] * matmul.m * matmul.n * kSumBytes;
    case kVector:  // of a matrix times a vector, and a counter
      return x[0] * matmul.m * matmul.n * kSumBytes + 16;
    case kSplit: {
      // K in as many parts as fill `x[0]` thread blocks a multiprocessor with tiles of x[1] x
      // x[2], of at least x[3] elements each, no more than x[5], less x[6]; then as few as hold
      // equally many whole steps of x[4] elements, for 0 of 32 where K is a multiple of it and of
      // 4 where not. Sums of x[7] bytes for rows rounded up to x[8].
      std::int64_t parts =
          std::min({x[0] * multiprocessors / tiles(x[1], x[2]), matmul.k / x[3], x[5]}) - x[6];
      if (parts < 2) return 0;
      const std::int64_t step = x[4] != 0 ? x[4] : matmul.k % 32 == 0 ? 32 : 4;
      if (step > 1) {
        const std::int64_t steps = CeilDiv(matmul.k, step);
        parts = CeilDiv(steps, CeilDiv(steps, parts));
      }
      return parts * CeilDiv(matmul.m, x[8]) * x[8] * matmul.n * x[7] + (x[8] > 1 ? 16 : 0);
    }
    default:
      break;
  }
  // Stream-K: partial tiles of x[1] x x[2] where x[0] blocks run at once, and their counters.
  const std::int64_t blocks =
      std::max<std::int64_t>(x[0] * multiprocessors / kMeasuredMultiprocessors, 1);
  const std::int64_t whole = tiles(x[1], x[2]);
  const std::int64_t partial = PartialTiles(leaf.formula, x[x.size() - 1], whole, blocks, matmul.k);
  return partial > 0 ? partial * x[1] * x[2] * kSumBytes + 272 : 0;
}

std::int64_t MatmulTrees::Workspace(const Matmul& matmul, std::int64_t limit,
                                    std::int64_t multiprocessors) const {
  if (matmul.m <= 0 || matmul.n <= 0 || matmul.k <= 0 || matmul.batch <= 0 ||
      multiprocessors <= 0) {
    return 0;
  }
  const bool aligned = matmul.row_bytes_a % kTensorMapAlignment == 0 &&
                       matmul.row_bytes_b % kTensorMapAlignment == 0 &&
                       matmul.row_bytes_d % kTensorMapAlignment == 0;
  // Fitted for some limits: the largest of those that the program's allows.
  const Tree* tree = nullptr;
  for (const Tree& other : trees_) {
    if (other.element_bytes == matmul.element_bytes && other.aligned == aligned &&
        other.batched == (matmul.batch > 1) && other.limit <= limit &&
        (tree == nullptr || other.limit > tree->limit)) {
      tree = &other;
    }
  }
  if (tree == nullptr) return 0;
  const std::array<double, kFeatures> features = Features(matmul, multiprocessors);
  std::size_t node = 0;
  while (tree->nodes[node].feature >= 0) {
    const Node& at = tree->nodes[node];
    node = features[static_cast<std::size_t>(at.feature)] <= at.threshold ? node + 1 : at.above;
  }
  const std::int64_t bytes = Bytes(tree->nodes[node], matmul, multiprocessors);
  return bytes <= tree->limit ? bytes : 0;  // an algorithm that needs more is not offered
}

bool MatmulTrees::ReadNodes(std::istream* in, int depth, std::vector<Node>* nodes) {
  std::string kind, name;
  if (depth > kMaxDepth || !(*in >> kind >> name)) return false;
  const std::size_t index = nodes->size();
  nodes->emplace_back();
  if (kind == "=") {
    const auto* const formula = std::find_if(kFormulas.begin(), kFormulas.end(),
                                             [&](const Name& f) { return f.name == name; });
    if (formula == kFormulas.end()) return false;
    Node& leaf = nodes->back();
    leaf.formula = static_cast<int>(formula - kFormulas.begin());
    leaf.numbers.resize(formula->numbers);
    for (std::size_t i = 0; i < leaf.numbers.size(); ++i) {
      if (!(*in >> leaf.numbers[i]) || leaf.numbers[i] < (MayBeZero(leaf.formula, i) ? 0 : 1)) {
        return false;
      }
    }
    return true;
  }
  const auto* const feature = std::find(kFeatureNames.begin(), kFeatureNames.end(), name);
  if (kind != "?" || feature == kFeatureNames.end() || !(*in >> (*nodes)[index].threshold)) {
    return false;
  }
  (*nodes)[index].feature = static_cast<int>(feature - kFeatureNames.begin());
  if (!ReadNodes(in, depth + 1, nodes)) return false;
  (*nodes)[index].above = nodes->size();
  return ReadNodes(in, depth + 1, nodes);
}

Result<MatmulTrees> MatmulTrees::Parse(const std::string& text) {
  std::istringstream in(text);
  constexpr std::string_view kMagic = "# memmodel matmul workspaces 2; compute capability ";
  std::string line;
  std::getline(in, line);
  MatmulTrees trees;
  if (!line.starts_with(kMagic) ||
      !(std::istringstream(line.substr(kMagic.size())) >> trees.compute_capability_)) {
    return Status::BadInput("no matmul workspaces of version 2");
  }
  for (std::string word; in >> word;) {
    Tree tree;
    if (word != "tree" ||
        !(in >> tree.element_bytes >> tree.aligned >> tree.batched >> tree.limit) ||
        !ReadNodes(&in, 0, &tree.nodes)) {
      return Status::BadInput("damaged matmul workspaces: tree " +
                              std::to_string(trees.trees_.size() + 1));
    }
    trees.trees_.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace memmodel::vgpu
