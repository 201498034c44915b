// The one sentence that says why the verdict is what it is.
#ifndef MEMMODEL_SRC_PREDICT_WORDS_H_
#define MEMMODEL_SRC_PREDICT_WORDS_H_

#include <string>

#include "memmodel/predict.h"
#include "src/child/protocol.h"
#include "src/predict/certain.h"

namespace memmodel {

// `runs`: it went through on the card; with `retries` of the allocator.
std::string ReasonForBatch(const PredictOptions& options, const Prediction& prediction, bool runs,
                           std::int64_t retries);
std::string ReasonForLargest(const PredictOptions& options, const Prediction& prediction);
std::string ReasonForUnknown(const UnknownValue& value);
std::string ReasonForTensors(const PredictOptions& options, const CertainBytes& certain,
                             Bytes with_context);

// What the virtual GPU refused and what it only estimated, the latter also as assumptions.
void DescribeCalls(const ProbeAnswer& answer, Prediction* prediction);

// A run that ended in an error of the model's own: its message, operator, module.
Status RunError(const std::string& model, const ProbeAnswer& answer);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_PREDICT_WORDS_H_
