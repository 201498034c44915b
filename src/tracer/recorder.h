// Writes down what the caching allocator does, as a Trace.
#ifndef MEMMODEL_SRC_TRACER_RECORDER_H_
#define MEMMODEL_SRC_TRACER_RECORDER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "memmodel/trace.h"
#include "src/tracer/operator_log.h"

namespace memmodel::tracer {

// The allocator keeps its tracker to the end of the process (it cannot be
// detached), and so the Recorder's inner state is shared with it.
class Recorder {
 public:
  // Attaches to the CUDA caching allocator, which must be initialised, and turns
  // on WatchOperators(kFull, last). One a process.
  explicit Recorder(LastStarted* last);

  void Mark(std::string_view text);
  // Says what the block that holds `tensor` is. Undefined tensors and tensors
  // that are not on a GPU are passed over.
  void Tag(TensorRole role, const at::Tensor& tensor, std::string_view name);
  void TagAddress(TensorRole role, const void* address, Bytes size, std::string_view name);

  // Ends recording and gives what was recorded.
  [[nodiscard]] Trace Take(std::string metadata);

 private:
  struct Shared;
  void WatchCalls();
  std::shared_ptr<Shared> shared_;
};

}  // namespace memmodel::tracer

#endif  // MEMMODEL_SRC_TRACER_RECORDER_H_
