// The rule and where it comes from. On an NVIDIA H200 (driver 580.159, torch
// 2.11.0 with CUDA 13, cuDNN 9.19) NVML's figure is 518 MiB with the context
// alone and 610 after the first kernel of libtorch_cuda. Less reserved memory it
// was, for more than 500 training and inference runs of 90 networks:
//   convolutions, no matrix product              630 MiB = 610 + 2 * 8 + 4
//   matrix products, no convolution              742 MiB = 610 + 2 * 66
//   both                                         758 MiB = 610 + 2 * 66 + 2 * 8
//   inference (no backward thread), both         686 MiB = 610 + 66 + 8 + 2
//   inference, matrix products                   678 MiB = 610 + 66 + 2
//   convolutions, one matrix product in one thread  696 MiB = 610 + 66 + 2 * 8 + 4
// each to within -2 and +6 MiB, the more the more different kernels were loaded.
// So a cuBLAS handle takes 66 MiB, a cuDNN handle 8, and PyTorch opens one in each
// thread that needs it (aten/src/ATen/cuda/CublasHandlePool.cpp,
// ATen/cudnn/Handle.cpp). Other networks are made of the same parts.
#include "src/predict/context.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace memmodel {
namespace {

bool UsesCudnn(std::string_view op) { return op.find("cudnn") != std::string_view::npos; }

// Backward runs in a thread of its own, with handles of its own.
std::int64_t CudnnThreads(const Trace& trace) {
  std::set<bool> threads;  // is it backward's?
  Phase phase = Phase::kNone;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kMarker) phase = PhaseAfter(trace.Text(event.text), phase);
    if (event.kind != EventKind::kAlloc) continue;
    const std::string_view op = trace.OperatorName(event.op);
    if (UsesCudnn(op)) threads.insert(phase == Phase::kBackward);
  }
  // In backward a convolution is aten::convolution_backward, whatever runs it.
  if (threads.contains(false)) {
    for (const std::string& op : trace.operators) {
      if (op.find("onvolution_backward") != std::string::npos ||
          op.find("onvolutionBackward") != std::string::npos) {
        threads.insert(true);
      }
    }
  }
  return static_cast<std::int64_t>(threads.size());
}

}  // namespace

LibraryHandles CountHandles(const ProbeAnswer& answer, const Trace* trace) {
  LibraryHandles handles;
  handles.cublas = answer.context.cublas_handles.value_or(-1);
  handles.cudnn = answer.context.cudnn_handles.value_or(-1);
  if (trace == nullptr) return handles;
  if (handles.cublas < 0) {
    std::set<std::uint64_t> workspaces;
    for (const Event& event : trace->events) {
      if (event.kind == EventKind::kTag && event.role == TensorRole::kLibraryWorkspace &&
          trace->Text(event.text).find("Lt") == std::string_view::npos) {
        workspaces.insert(event.address);
      }
    }
    handles.cublas = static_cast<std::int64_t>(workspaces.size());
  }
  if (handles.cudnn < 0) handles.cudnn = CudnnThreads(*trace);
  return handles;
}

ContextEstimate EstimateContext(const Device& device, const LibraryHandles& handles) {
  const ContextFigures& figures = device.context;
  const Bytes per_cublas = figures.cublas_handle.value_or(0);
  const Bytes per_cudnn = figures.cudnn_handle.value_or(0);
  const auto with = [&](std::int64_t if_unknown) {
    return figures.base + per_cublas * (handles.cublas < 0 ? if_unknown : handles.cublas) +
           per_cudnn * (handles.cudnn < 0 ? if_unknown : handles.cudnn);
  };
  ContextEstimate estimate;
  estimate.value = with(2);
  estimate.low = std::max<Bytes>(0, with(0) - figures.below.value_or(0));
  estimate.high = with(2) + figures.above.value_or(0);
  const std::string_view kind = device.SourceKind("context.base_bytes");
  estimate.basis = "context of " + device.device_name + " (" +
                   (kind == "measured" ? "measured" : "estimated, not measured") + ")";
  return estimate;
}

ContextEstimate ContextOf(const Device& device, const ProbeAnswer& answer, const Trace* trace) {
  if (const std::optional<Bytes>& measured = answer.context.measured) {
    return {*measured, *measured, *measured, "context of this run, measured by NVML"};
  }
  return EstimateContext(device, CountHandles(answer, trace));
}

}  // namespace memmodel
