// A model at one batch as JSON, for memmodel_model_explain.
#ifndef MEMMODEL_SRC_CAPI_EXPLAIN_JSON_H_
#define MEMMODEL_SRC_CAPI_EXPLAIN_JSON_H_

#include <string>

#include "memmodel/memory_model.h"

namespace memmodel {

// The object that docs/c_api.md describes. Fails where MemoryModel::At does.
Result<std::string> ModelToJson(const MemoryModel& model, std::int64_t batch);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CAPI_EXPLAIN_JSON_H_
