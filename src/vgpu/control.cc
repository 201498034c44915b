// control.h and calls.h on the one state.
#include "src/vgpu/control.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/vgpu/calls.h"
#include "src/vgpu/state.h"
#include "src/vgpu/streams.h"

namespace memmodel::vgpu {
namespace {

// Every refused function that was called, newest first. A list without a lock:
// entries are static and are only ever added.
std::atomic<memmodel_vgpu_call*> refused_calls = nullptr;
std::atomic<memmodel_vgpu_call*> accepted_calls = nullptr;
std::atomic<memmodel_vgpu_call*> approximate_calls = nullptr;

unsigned long Count(memmodel_vgpu_call* call, std::atomic<memmodel_vgpu_call*>* list) {
  const unsigned long before = __atomic_fetch_add(&call->count, 1, __ATOMIC_RELAXED);
  if (before == 0) {
    call->next = list->load(std::memory_order_relaxed);
    while (!list->compare_exchange_weak(call->next, call, std::memory_order_release)) {
    }
  }
  return before;
}

void AppendCalls(const std::atomic<memmodel_vgpu_call*>& list, std::string* json) {
  const char* separator = "";
  for (const memmodel_vgpu_call* call = list.load(std::memory_order_acquire); call != nullptr;
       call = call->next) {
    *json += separator;
    *json += std::string("{\"function\":\"") + call->name +
             "\",\"count\":" + std::to_string(__atomic_load_n(&call->count, __ATOMIC_RELAXED)) +
             "}";
    separator = ",";
  }
}

bool ValidDevice(int device) { return device >= 0 && device < State::Get().device_count(); }

}  // namespace

std::string State::ReportJson() const {
  std::string json =
      "{\"unknown_reads\":" + std::to_string(unknown_reads_.load()) + ",\"refused\":[";
  AppendCalls(refused_calls, &json);
  json += "],\"accepted\":[";
  AppendCalls(accepted_calls, &json);
  json += "],\"approximate\":[";
  AppendCalls(approximate_calls, &json);
  json += "],\"modules_loaded\":" + std::to_string(modules_loaded_.load()) +
          ",\"code_bytes\":" + std::to_string(code_bytes_.load()) +
          ",\"cublas_handles\":" + std::to_string(cublas_handles_.load()) +
          ",\"cudnn_handles\":" + std::to_string(cudnn_handles_.load()) +
          ",\"kernels_launched\":" + std::to_string(kernels_launched_.load()) +
          ",\"distinct_kernels\":" + std::to_string(distinct_kernels_.load());
  const bool calibrated = calibrated_workspaces_.load() > 0;
  const bool deviceless = deviceless_workspaces_.load() > 0;
  if (calibrated || deviceless) {
    json += std::string(",\"workspace\":\"") +
            (calibrated && deviceless ? "mixed"
             : calibrated             ? "calibrated"
                                      : "deviceless") +
            "\"";
  }
  json += ",\"devices\":[";
  for (int device = 0; device < device_count_; ++device) {
    json += (device == 0 ? "{\"used_bytes\":" : ",{\"used_bytes\":") +
            std::to_string(UsedBytes(device)) +
            ",\"context_bytes\":" + std::to_string(ContextBytes(device)) + "}";
  }
  return json + "]}";
}

}  // namespace memmodel::vgpu

using memmodel::vgpu::State;

extern "C" {

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_accept(memmodel_vgpu_call* call) {
  memmodel::vgpu::Count(call, &memmodel::vgpu::accepted_calls);
  State::Get().CountLaunch();
  memmodel::vgpu::CapturedSomewhere();
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_refuse(memmodel_vgpu_call* call) {
  memmodel::vgpu::Count(call, &memmodel::vgpu::refused_calls);
  State::Get().Log(std::string("refused ") + call->name);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_approximate(memmodel_vgpu_call* call) {
  const unsigned long before = memmodel::vgpu::Count(call, &memmodel::vgpu::approximate_calls);
  if (before == 0) State::Get().Log(std::string("approximate ") + call->name);
}

MEMMODEL_VGPU_EXPORT void* memmodel_vgpu_new_handle(const char* function) {
  if (std::string_view(function) == "cudnnCreate") State::Get().CountCudnnHandle();
  // Real memory, since callers may read through a handle by mistake, and of a
  // size that keeps handles apart.
  return new std::uint64_t[8]();
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_set_memory(int device, uint64_t total_bytes,
                                                   uint64_t context_bytes) {
  if (memmodel::vgpu::ValidDevice(device)) {
    State::Get().SetMemory(device, total_bytes, context_bytes);
  }
}

MEMMODEL_VGPU_EXPORT uint64_t memmodel_vgpu_used_bytes(int device) {
  return memmodel::vgpu::ValidDevice(device) ? State::Get().UsedBytes(device) : 0;
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_largest_workspace_fastest(int largest) {
  State::Get().SetLargestWorkspaceFastest(largest != 0);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_on_unknown_read(memmodel_vgpu_unknown_read_fn reader,
                                                        void* context) {
  State::Get().OnUnknownRead(reader, context);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_on_convolution(memmodel_vgpu_convolution_fn watcher,
                                                       void* context) {
  State::Get().OnConvolution(watcher, context);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_on_context_growth(memmodel_vgpu_context_growth_fn watcher,
                                                          void* context) {
  State::Get().OnContextGrowth(watcher, context);
}

MEMMODEL_VGPU_EXPORT int memmodel_vgpu_peek(uint64_t address, uint64_t size, void* destination) {
  return State::Get().Peek(address, size, destination) ? 1 : 0;
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_know(uint64_t address, uint64_t size, const void* bytes) {
  State::Get().Know(address, bytes, size);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_forget(uint64_t address, uint64_t size) {
  State::Get().Forget(address, size);
}

MEMMODEL_VGPU_EXPORT uint64_t memmodel_vgpu_block_out(uint64_t address) {
  return State::Get().BlockOut(address);
}

MEMMODEL_VGPU_EXPORT void memmodel_vgpu_block_back(uint64_t address) {
  State::Get().BlockBack(address);
}

MEMMODEL_VGPU_EXPORT const char* memmodel_vgpu_report_json() {
  thread_local std::string json;
  json = State::Get().ReportJson();
  return json.c_str();
}

}  // extern "C"
