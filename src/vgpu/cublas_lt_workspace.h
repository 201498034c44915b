// The workspace that cublasLt's algorithms ask for: decision trees that were
// fitted to measured answers (docs/cudnn.md), since cublasLt's own choice can be
// computed by nothing but itself on a GPU.
#ifndef MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_
#define MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::vgpu {

// D[m][n] = A[m][k] * B[k][n], column by column, `batch` times; accumulated in
// float, with TF32 where A and B are float.
struct Matmul {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  int element_bytes = 0;                                           // of A and B: 4 or 2
  std::int64_t row_bytes_a = 0, row_bytes_b = 0, row_bytes_d = 0;  // leading dimensions
};

// Text: a first line `# memmodel matmul workspaces 2; compute capability CC; source: ...`,
// then for each kind of product `tree ELEMENT_BYTES ALIGNED BATCHED LIMIT` and its nodes in
// preorder: `? FEATURE THRESHOLD` is followed by the node for values up to the
// threshold and the one for values above, `= FORMULA NUMBERS...` is a leaf. ALIGNED: rows of A, B
// and D begin at multiples of 16 bytes, as tensor maps need. The formulas are
// those of Bytes() in the source file.
class MatmulTrees {
 public:
  static Result<MatmulTrees> Parse(const std::string& text);

  [[nodiscard]] int compute_capability() const { return compute_capability_; }

  // The most that one of the algorithms needs that the heuristic offers under
  // `limit`, in bytes, on a GPU with so many multiprocessors.
  [[nodiscard]] std::int64_t Workspace(const Matmul& matmul, std::int64_t limit,
                                       std::int64_t multiprocessors) const;

 private:
  struct Node {
    int feature = -1;  // of a leaf: -1
    double threshold = 0;
    std::size_t above = 0;  // index of the node for values above; the other follows
    int formula = 0;
    std::vector<std::int64_t> numbers;  // of the formula
  };
  struct Tree {
    int element_bytes = 0;
    bool aligned = false, batched = false;
    std::int64_t limit = 0;
    std::vector<Node> nodes;
  };
  static bool ReadNodes(std::istream* in, int depth, std::vector<Node>* nodes);
  static std::int64_t Bytes(const Node& leaf, const Matmul& matmul, std::int64_t multiprocessors);

  int compute_capability_ = 0;
  std::vector<Tree> trees_;
};

// data/cudnn/hopper.matmuls, which the build puts into the library.
extern const char* const kHopperMatmuls;

}  // namespace memmodel::vgpu

#endif  // MEMMODEL_SRC_VGPU_CUBLAS_LT_WORKSPACE_H_
