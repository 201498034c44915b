// The C interface over MemoryModel. No exception leaves a function: the core
// throws none but std::bad_alloc, which is turned into an error here.
#include "memmodel/c.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "memmodel/memory_model.h"
#include "src/capi/explain_json.h"

struct memmodel_model_t {
  memmodel::MemoryModel model;
};

namespace {

using memmodel::BatchMemory;
using memmodel::Bytes;
using memmodel::GpuBudget;
using memmodel::Result;
using memmodel::Status;
using memmodel::StatusCode;

char* Copy(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

memmodel_status_t Fail(memmodel_status_t code, const char* message, char** errptr) {
  if (errptr != nullptr && *errptr == nullptr) {
    const std::size_t size = std::strlen(message) + 1;
    *errptr = static_cast<char*>(std::malloc(size));
    if (*errptr != nullptr) std::memcpy(*errptr, message, size);
  }
  return code;
}

memmodel_status_t Fail(const Status& status, char** errptr) {
  memmodel_status_t code = MEMMODEL_INTERNAL;
  switch (status.code()) {
    case StatusCode::kOk: return MEMMODEL_OK;
    case StatusCode::kInvalidArgument: code = MEMMODEL_INVALID_ARGUMENT; break;
    case StatusCode::kBadInput: code = MEMMODEL_BAD_INPUT; break;
    case StatusCode::kUnknown: code = MEMMODEL_UNDETERMINED; break;
    case StatusCode::kUnavailable: code = MEMMODEL_UNAVAILABLE; break;
    case StatusCode::kInternal: break;
  }
  return Fail(code, status.message().c_str(), errptr);
}

// Runs `f`, which returns a status code, without letting an exception out.
template <typename F>
memmodel_status_t Guard(char** errptr, F f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Fail(MEMMODEL_UNAVAILABLE, "out of host memory", errptr);
  } catch (const std::exception& error) {
    return Fail(MEMMODEL_INTERNAL, error.what(), errptr);
  } catch (...) {
    return Fail(MEMMODEL_INTERNAL, "an unknown exception", errptr);
  }
}

// The size that a struct had in the first version of this interface is the least
// that a caller may know; no version has added a field yet.
template <typename T>
bool KnownSize(const T* s) {
  return s != nullptr && s->struct_size >= sizeof(T);
}

memmodel_basis_t Basis(memmodel::ModelBasis basis) {
  switch (basis) {
    case memmodel::ModelBasis::kTraced: return MEMMODEL_BASIS_TRACED;
    case memmodel::ModelBasis::kExact: return MEMMODEL_BASIS_EXACT;
    case memmodel::ModelBasis::kInterpolated: return MEMMODEL_BASIS_INTERPOLATED;
    case memmodel::ModelBasis::kExtrapolated: break;
  }
  return MEMMODEL_BASIS_EXTRAPOLATED;
}

GpuBudget BudgetOf(const memmodel_gpu_t& gpu) {
  GpuBudget budget;
  budget.total_bytes = gpu.total_bytes;
  budget.used_bytes = gpu.used_bytes;
  budget.target = gpu.target;
  if (gpu.context_bytes != MEMMODEL_UNKNOWN) budget.context_bytes = gpu.context_bytes;
  return budget;
}

constexpr const char* kNoModel = "model is NULL";
constexpr const char* kBadStruct =
    "a struct argument is NULL or its struct_size is not set (use the _INIT macros)";
constexpr const char* kBadGpu =
    "a GPU needs total_bytes above 0, used_bytes of at least 0, a target in (0, 1] and "
    "context_bytes of at least 0 or MEMMODEL_UNKNOWN";

bool Valid(const memmodel_gpu_t& gpu) {
  return gpu.total_bytes > 0 && gpu.used_bytes >= 0 && gpu.target > 0 && gpu.target <= 1 &&
         gpu.context_bytes >= MEMMODEL_UNKNOWN;
}

memmodel_model_t* Wrap(Result<memmodel::MemoryModel> model, char** errptr) {
  if (!model.ok()) {
    Fail(model.status(), errptr);
    return nullptr;
  }
  return new memmodel_model_t{std::move(model).value()};
}

}  // namespace

extern "C" {

const char* memmodel_version(void) { return MEMMODEL_VERSION; }
int memmodel_c_api_version(void) { return MEMMODEL_C_API_VERSION; }
void memmodel_free(void* text) { std::free(text); }

memmodel_model_t* memmodel_model_open(const char* path, char** errptr) {
  memmodel_model_t* model = nullptr;
  Guard(errptr, [&] {
    if (path == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, "path is NULL", errptr);
    model = Wrap(memmodel::MemoryModel::Read(path), errptr);
    return MEMMODEL_OK;
  });
  return model;
}

memmodel_model_t* memmodel_model_parse(const void* data, size_t size, char** errptr) {
  memmodel_model_t* model = nullptr;
  Guard(errptr, [&] {
    if (data == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, "data is NULL", errptr);
    model = Wrap(memmodel::MemoryModel::Parse({static_cast<const char*>(data), size}, "data"),
                 errptr);
    return MEMMODEL_OK;
  });
  return model;
}

void memmodel_model_close(memmodel_model_t* model) { delete model; }

memmodel_status_t memmodel_model_peak(const memmodel_model_t* model, int64_t batch,
                                      memmodel_memory_t* memory, char** errptr) {
  return Guard(errptr, [&] {
    if (model == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, kNoModel, errptr);
    if (!KnownSize(memory)) return Fail(MEMMODEL_INVALID_ARGUMENT, kBadStruct, errptr);
    const Result<BatchMemory> at = model->model.At(batch);
    if (!at.ok()) return Fail(at.status(), errptr);
    memory->batch = batch;
    memory->allocated_bytes = at->allocated;
    memory->reserved_bytes = at->reserved;
    memory->device_bytes = at->device.value_or(MEMMODEL_UNKNOWN);
    memory->allocated_low_bytes = at->allocated_range.low;
    memory->allocated_high_bytes = at->allocated_range.high;
    memory->reserved_low_bytes = at->reserved_range.low;
    memory->reserved_high_bytes = at->reserved_range.high;
    memory->basis = Basis(at->basis);
    return MEMMODEL_OK;
  });
}

memmodel_status_t memmodel_model_largest_batch(const memmodel_model_t* model,
                                               const memmodel_gpu_t* gpu, memmodel_limit_t* limit,
                                               char** errptr) {
  return Guard(errptr, [&] {
    if (model == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, kNoModel, errptr);
    if (!KnownSize(gpu) || !KnownSize(limit)) {
      return Fail(MEMMODEL_INVALID_ARGUMENT, kBadStruct, errptr);
    }
    if (!Valid(*gpu)) return Fail(MEMMODEL_INVALID_ARGUMENT, kBadGpu, errptr);
    const auto solved = model->model.Solve(BudgetOf(*gpu));
    if (!solved.ok()) return Fail(solved.status(), errptr);
    limit->batch = solved->batch;
    limit->budget_bytes = solved->budget_bytes;
    limit->bounded = solved->bounded ? 1 : 0;
    return MEMMODEL_OK;
  });
}

memmodel_status_t memmodel_model_fits(const memmodel_model_t* model, int64_t batch,
                                      const memmodel_gpu_t* gpu, memmodel_fit_t* fit,
                                      char** errptr) {
  return Guard(errptr, [&] {
    if (model == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, kNoModel, errptr);
    if (!KnownSize(gpu) || !KnownSize(fit)) {
      return Fail(MEMMODEL_INVALID_ARGUMENT, kBadStruct, errptr);
    }
    if (!Valid(*gpu)) return Fail(MEMMODEL_INVALID_ARGUMENT, kBadGpu, errptr);
    const Result<BatchMemory> at = model->model.At(batch);
    if (!at.ok()) return Fail(at.status(), errptr);
    std::optional<Bytes> context = model->model.context_bytes();
    if (gpu->context_bytes != MEMMODEL_UNKNOWN) context = gpu->context_bytes;
    const Bytes beside = context.value_or(0);
    fit->context_known = context ? 1 : 0;
    fit->needed_bytes = at->reserved + beside;
    fit->low_bytes = at->reserved_range.low + beside;
    fit->high_bytes = at->reserved_range.high + beside;
    fit->budget_bytes =
        static_cast<Bytes>(gpu->target * static_cast<double>(gpu->total_bytes)) - gpu->used_bytes;
    fit->fits = fit->needed_bytes <= fit->budget_bytes ? 1 : 0;
    fit->certain = (fit->low_bytes <= fit->budget_bytes) == (fit->high_bytes <= fit->budget_bytes);
    return MEMMODEL_OK;
  });
}

char* memmodel_model_explain(const memmodel_model_t* model, int64_t batch, char** errptr) {
  char* text = nullptr;
  Guard(errptr, [&] {
    if (model == nullptr) return Fail(MEMMODEL_INVALID_ARGUMENT, kNoModel, errptr);
    const Result<std::string> json = memmodel::ModelToJson(model->model, batch);
    if (!json.ok()) return Fail(json.status(), errptr);
    text = Copy(*json);
    return text != nullptr ? MEMMODEL_OK : Fail(MEMMODEL_UNAVAILABLE, "out of host memory", errptr);
  });
  return text;
}

}  // extern "C"
