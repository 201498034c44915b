#include "src/step/torch_compat.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <string_view>

namespace memmodel::step {
namespace {

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

std::string FirstLine(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string_view text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  // TorchScript's interpreter puts its own trace first and the cause last, after
  // "RuntimeError: ".
  constexpr std::string_view kCause = "RuntimeError: ";
  if (text.find("Traceback of TorchScript") != std::string_view::npos) {
    const std::size_t cause = text.rfind(kCause);
    if (cause != std::string_view::npos) text = text.substr(cause + kCause.size());
  }
  text = text.substr(0, text.find("\nException raised from"));
  text = Trim(text);
  return std::string(Trim(text.substr(0, text.find('\n'))));
}

void ConfigureTorch() {
  at::set_num_threads(1);
  // The profiling executor changes from the second run on what is saved for
  // backward; eager PyTorch does as the plain executor.
  torch::jit::setGraphExecutorOptimize(false);
  // Autocast is the dispatcher's, as in eager PyTorch, not a graph pass.
  torch::jit::setAutocastMode(false);
}

}  // namespace memmodel::step
