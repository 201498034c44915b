#include "src/predict/words.h"

#include <cmath>
#include <cstdio>

namespace memmodel {
namespace {

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %%", share < 0.0995 ? 1 : 0, 100 * share);
  return text;
}

std::string ShareOf(Bytes part, Bytes total) {
  return Percent(static_cast<double>(part) / static_cast<double>(total));
}

}  // namespace

std::string ReasonForBatch(const PredictOptions& options, const Prediction& prediction, bool runs,
                           std::int64_t retries) {
  const std::string batch = "batch " + std::to_string(*prediction.batch);
  const std::string card = FormatBytes(options.total_bytes);
  if (!prediction.peak) return batch + " asks for more memory than any GPU has";
  const std::string need = batch + " takes " + FormatBytes(prediction.peak->device) + ", " +
                           ShareOf(prediction.peak->device, options.total_bytes) + " of " + card;
  if (prediction.verdict == Verdict::kFits) {
    return need + "; the target allows " + Percent(options.target);
  }
  if (!runs && options.allocator_limit) {
    return batch + " runs out of memory: it needs " + FormatBytes(prediction.peak->reserved) +
           " reserved, the allocator may take " + FormatBytes(*options.allocator_limit);
  }
  if (!runs) {
    return batch + " runs out of memory: it needs " + FormatBytes(prediction.peak->device) +
           ", the card has " + card;
  }
  if (retries > 0) {
    return batch +
           " runs, but only because the allocator gives cached memory back and tries "
           "again (" +
           std::to_string(retries) + (retries == 1 ? " time)" : " times)");
  }
  if (prediction.peak->device <=
      static_cast<Bytes>(options.target * static_cast<double>(options.total_bytes))) {
    return need +
           "; with the plans of the largest workspaces, which cudnn.benchmark may find the "
           "fastest, it does not fit";
  }
  return need + "; it runs, but the target allows only " + Percent(options.target);
}

std::string ReasonForLargest(const PredictOptions& options, const Prediction& prediction) {
  const std::string target = Percent(options.target) + " of " + FormatBytes(options.total_bytes);
  if (prediction.largest_batch.value_or(0) > 0) {
    return "batch " + std::to_string(*prediction.largest_batch) + " takes " +
           FormatBytes(prediction.peak->device) + " of the " + target +
           " that the target allows; batch " + std::to_string(*prediction.largest_batch + 1) +
           " does not fit";
  }
  const std::string need = prediction.peak ? "batch " + std::to_string(*prediction.batch) +
                                                 " takes " + FormatBytes(prediction.peak->device)
                                           : "the smallest batch is too large";
  if (prediction.largest_batch_before_oom.value_or(0) > 0) {
    return need + ", more than " + target + "; up to batch " +
           std::to_string(*prediction.largest_batch_before_oom) +
           " would run without running out of memory";
  }
  return need + "; the card has " + FormatBytes(options.total_bytes);
}

std::string ReasonForUnknown(const UnknownValue& value) {
  return "the memory depends on values that only a real run computes: " + value.op +
         (value.module.empty() ? "" : " in " + value.module) +
         "; give --unknown-count max, or a fraction of it, for a bound";
}

void DescribeCalls(const ProbeAnswer& answer, Prediction* prediction) {
  for (const ProbeAnswer::Refused& call : answer.refused) {
    // A profiler's calls decide no memory.
    if (!call.function.starts_with("cupti")) prediction->refused.push_back(call.function);
  }
  for (const ProbeAnswer::Refused& call : answer.approximate) {
    prediction->approximate.push_back(call.function);
    prediction->assumptions.push_back(
        "what " + call.function + " answers is an estimate, so these figures are estimates too");
  }
}

std::string ReasonForTensors(const PredictOptions& options, const CertainBytes& certain,
                             Bytes with_context) {
  std::string text = options.job.model +
                     " holds tensors without a program (a state_dict or pickled module), so "
                     "activations are unknown; certain are " +
                     FormatBytes(certain.weights) + " weights";
  if (options.job.mode == Mode::kTrain) {
    text += ", " + FormatBytes(certain.gradients) + " gradients";
    if (certain.optimizer_state > 0) {
      text += ", " + FormatBytes(certain.optimizer_state) + " optimizer state";
    }
  }
  if (with_context > options.total_bytes) {
    return text + ": more than the card's " + FormatBytes(options.total_bytes);
  }
  return text + "; export the module with scripts/export_model.py for an answer";
}

Status RunError(const std::string& model, const ProbeAnswer& answer) {
  std::string message = model + " does not run at batch " + std::to_string(answer.batch) + ": " +
                        answer.error.message;
  std::string where;
  if (!answer.error.op.empty() && message.find(answer.error.op) == std::string::npos) {
    where = "operator " + answer.error.op;
  }
  if (!answer.error.module.empty() && message.find(answer.error.module) == std::string::npos) {
    where += (where.empty() ? "module " : ", module ") + answer.error.module;
  }
  if (!where.empty()) message += " (" + where + ")";
  return Status::BadInput(message);
}

}  // namespace memmodel
