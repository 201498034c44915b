#include "src/step/calibrate.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "src/step/clusters.h"
#include "src/step/convolution_plan.h"
#include "src/step/device.h"
#include "src/step/job.h"
#include "src/step/nvml.h"
#include "src/step/operator_requests.h"
#include "src/step/torch_compat.h"
#include "src/vgpu/device_attributes.h"

namespace memmodel::step {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json Properties() {
  ordered_json cuda = json::object();
  std::string_view last;
  for (const vgpu::AttributeField& attribute : vgpu::AttributeFields()) {
    if (attribute.field == std::string_view(last)) continue;  // asked with its first element
    int value = 0;
    std::vector<int> values;
    for (const vgpu::AttributeField& part : vgpu::AttributeFields()) {
      if (std::string_view(part.field) != attribute.field) continue;
      if (cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(part.number), 0) !=
          cudaSuccess) {
        break;
      }
      values.push_back(value);
    }
    static_cast<void>(cudaGetLastError());
    last = attribute.field;
    const std::size_t length = DeviceFieldLength(attribute.field);
    // An older runtime does not know all attributes.
    if (values.size() < length) continue;
    values.resize(length);
    if (length == 1) {
      cuda[attribute.field] = value;  // 40, not 15, is the count of asyncEngineCount
    } else {
      cuda[attribute.field] = values;
    }
  }
  return cuda;
}

// Takes the steps of a context one by one and reads what each took.
class ContextSteps {
 public:
  // Calls `act`, then sets `name` to what NVML counts more, less what torch reserved.
  template <typename Act>
  void Take(const char* name, const Act& act) {
    act();
    static_cast<void>(cudaDeviceSynchronize());
    const std::optional<Bytes> used = NvmlProcessBytes();
    if (!used) {
      known_ = false;
      return;
    }
    const Bytes context = *used - ReservedBytes();
    if (known_) figures_[name] = context - context_;
    context_ = context;
  }
  [[nodiscard]] Bytes context() const { return context_; }
  [[nodiscard]] bool known() const { return known_; }
  ordered_json& figures() { return figures_; }

 private:
  ordered_json figures_ = json::object();
  Bytes context_ = 0;
  bool known_ = true;
};

ordered_json Context(Bytes total, cudnnHandle_t* handle) {
  ContextSteps steps;
  at::Tensor tensor;
  steps.Take("primary_bytes", [] {});
  std::size_t free = 0, all = 0;
  if (steps.known() && cudaMemGetInfo(&free, &all) == cudaSuccess) {
    const Bytes system = total - static_cast<Bytes>(free) - steps.context();
    if (system >= 0) steps.figures()["system_bytes"] = system;
  }
  steps.Take("first_kernel_bytes", [&] {
    tensor = at::empty({1}, at::TensorOptions().device(at::kCUDA));
    tensor.zero_();
    tensor.add_(1);
  });
  steps.Take("cublas_handle_bytes", [] {
    void* blas = nullptr;
    cudnn_plans::Find<int(void**)>("cublasCreate_v2")(&blas);
  });
  steps.Take("cudnn_handle_bytes",
             [&] { cudnn_plans::Find<decltype(cudnnCreate)>("cudnnCreate")(handle); });
  return steps.figures();
}

}  // namespace

std::string Calibrate(const std::string& line) {
  const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
  try {
    ConfigureTorch();
    at::globalContext().lazyInitDevice(at::kCUDA);
    TORCH_CHECK(c10::cuda::device_count() > 0, "no CUDA device found");
    ordered_json answer = {{"calibrated", 1}, {"cudnn_version", CudnnVersion()}};
    static_cast<void>(cudaSetDevice(0));
    static_cast<void>(cudaFree(nullptr));  // makes the context
    cudnnHandle_t handle = nullptr;
    if (request.value("figures", false)) {
      const cudaDeviceProp& properties = *at::cuda::getCurrentDeviceProperties();
      const auto total = static_cast<Bytes>(properties.totalGlobalMem);
      ordered_json figures = {
          {"device_name", properties.name},        {"total_bytes", total},
          {"driver_version", NvmlDriverVersion()}, {"torch_version", TorchVersion()},
          {"cudnn_version", CudnnVersion()},       {"cuda", Properties()},
          {"context", Context(total, &handle)}};
      const std::vector<int> clusters = MaxActiveClusters(properties.major, properties.minor);
      if (!clusters.empty()) figures["max_active_clusters"] = clusters;
      answer["figures"] = std::move(figures);
    } else {
      cudnn_plans::Find<decltype(cudnnCreate)>("cudnnCreate")(&handle);
    }
    TORCH_CHECK(handle != nullptr, "cudnnCreate failed");
    ordered_json plans = json::array();
    for (const json& key : request.value("plans", json::array())) {
      const cudnn_plans::Plan plan = cudnn_plans::Ask(key.get<std::string>(), handle);
      plans.push_back({plan.bytes, plan.engine});
    }
    answer["plans"] = std::move(plans);
    json operators = json::array();
    for (const json& key : request.value("operators", json::array())) {
      const std::optional<std::vector<Bytes>> bytes = RequestsOf(key.get<std::string>());
      operators.push_back(bytes ? json(*bytes) : json());
    }
    if (!operators.empty()) answer["operators"] = std::move(operators);
    return answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  } catch (const std::exception& error) {
    return FormatError(Status::Unavailable(FirstLine(error)));
  }
}

}  // namespace memmodel::step

int memmodel_step_calibrate(const char* line, int out_fd) {
  const std::string answer = memmodel::step::Calibrate(line);
  std::string_view rest = answer;
  while (!rest.empty()) {
    const ssize_t n = write(out_fd, rest.data(), rest.size());
    if (n <= 0) return memmodel::kExitUnknown;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return answer.starts_with("{\"error\"") ? memmodel::kExitUnknown : 0;
}
