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
constexpr int kMaxDepth = 200;         // of a tree; a damaged file is refused

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

struct Name {
  std::string_view name;
  std::size_t numbers = 0;
};

// Formulas and how many numbers they take.
constexpr std::array<Name, 7> kFormulas = {{{"fixed", 1},
                                            {"counters", 2},
                                            {"parts", 1},
                                            {"split", 8},
                                            {"stream", 4},
                                            {"whole", 3},
                                            {"rest", 3}}};
enum Formula { kFixed, kCounters, kParts, kSplit, kStream, kWhole, kRest };

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
    case kSplit: {
      // K in as many parts as fill `x[0]` thread blocks a multiprocessor with tiles of x[1] x
      // x[2], of at least x[3] elements each, no more than x[5]; whole steps of x[4]. Sums of
      // x[6] bytes for rows rounded up to x[7].
      std::int64_t parts =
          std::min({x[0] * multiprocessors / tiles(x[1], x[2]), matmul.k / x[3], x[5]});
      if (parts < 2) return 0;
      if (x[4] > 1) {
        const std::int64_t steps = CeilDiv(matmul.k, x[4]);
        parts = CeilDiv(steps, CeilDiv(steps, parts));
      }
      if (parts < 2) return 0;
      return parts * CeilDiv(matmul.m, x[7]) * x[7] * matmul.n * x[6] + (x[7] > 1 ? 16 : 0);
    }
    default:
      break;
  }
  // Stream-K: partial tiles of x[1] x x[2], at most x[0] a multiprocessor, and their counters.
  const std::int64_t blocks = x[0] * multiprocessors;
  const std::int64_t whole = tiles(x[1], x[2]);
  std::int64_t partial = 0;
  if (leaf.formula == kStream) {
    partial = std::min(blocks, whole * (CeilDiv(matmul.k, 32) / x[3]));
  } else if (leaf.formula == kWhole) {
    partial = whole <= blocks ? blocks / whole * whole : blocks;
  } else {
    partial = whole <= blocks ? blocks : whole % blocks;
  }
  return partial * x[1] * x[2] * kSumBytes + 272;
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
    for (std::int64_t& number : leaf.numbers) {
      if (!(*in >> number) || number < (leaf.formula == kFixed ? 0 : 1)) return false;
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
  constexpr std::string_view kMagic = "# memmodel matmul workspaces 1; compute capability ";
  std::string line;
  std::getline(in, line);
  MatmulTrees trees;
  if (!line.starts_with(kMagic) ||
      !(std::istringstream(line.substr(kMagic.size())) >> trees.compute_capability_)) {
    return Status::BadInput("no matmul workspaces of version 1");
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
