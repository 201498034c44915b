// What holds for batches on the card of true size, and the largest that runs there.
#ifndef MEMMODEL_SRC_PREDICT_CARD_TRIALS_H_
#define MEMMODEL_SRC_PREDICT_CARD_TRIALS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memmodel/predict.h"
#include "src/child/child.h"
#include "src/predict/largest_batch.h"
#include "src/predict/prober.h"

namespace memmodel {

// With cudnn.benchmark PyTorch keeps the fastest plan of each convolution
// (aten/src/ATen/native/cudnn/Conv_v8.cpp), and which that is only the GPU can tell. What holds
// must then hold with the plans that cuDNN's heuristic names first and with those of the largest
// workspaces.
class CardTrials {
 public:
  using Holds = std::function<bool(const ProbeAnswer&)>;

  // For the user: what is assumed of the plans, and what an interval over both spans.
  static constexpr const char* kAssumed =
      "which plans cudnn.benchmark finds the fastest only the GPU can tell: figures are those of "
      "the plans that cuDNN's heuristic names first; what fits or runs does so with those of the "
      "largest workspaces too";
  static constexpr const char* kBasis =
      "from the plans that cuDNN's heuristic names first to those of the largest workspaces; ";

  // `first` runs the job with the heuristic's plans. All arguments must outlive the trials.
  CardTrials(const PredictOptions& options, const std::string& trace_folder, Child* child,
             Prober* first);

  // Whether the plans are in question: cudnn.benchmark on a virtual GPU.
  [[nodiscard]] bool plans_unknown() const { return plans_unknown_; }

  // Of each batch, whether it holds whichever plans are kept.
  Result<std::vector<Trial>> Try(const std::vector<std::int64_t>& batches, const Holds& holds);

  // The largest batch that runs: the smaller of what a person would find with either kind of
  // plans (ClimbToLargest), or the first below it that runs with both.
  Result<std::int64_t> Climb(const ClimbOptions& options);

  // What `batch` needs with the plans of the largest workspaces.
  Result<ProbeAnswer> NeedOfLargest(std::int64_t batch);

  // Of the first batch that ended in an error of the model's own, a sentence; "" if none did.
  [[nodiscard]] const std::string& first_error() const { return first_error_; }

 private:
  Result<std::vector<Trial>> TryWith(Prober* plans, const std::vector<std::int64_t>& batches,
                                     const Holds& holds);

  bool plans_unknown_;
  Prober* first_;
  Prober largest_;
  std::string first_error_;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_CARD_TRIALS_H_
