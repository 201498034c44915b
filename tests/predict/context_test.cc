#include "src/predict/context.h"

#include <doctest/doctest.h>

using namespace memmodel;

namespace {

Device H200() {
  Result<Device> device = Status::Internal("");
  Result<DeviceCatalogue> catalogue =
      DeviceCatalogue::Read(std::string(MEMMODEL_SOURCE_DIR) + "/data/devices");
  REQUIRE(catalogue.ok());
  device = catalogue->Find("h200");
  REQUIRE(device.ok());
  return *device;
}

}  // namespace

// NVML's used memory less PyTorch's reserved memory, of training runs on an NVIDIA
// H200 (driver 580.159, torch 2.11.0): the rule must hold to within its interval.
TEST_CASE("the context of measured runs lies in the interval") {
  struct Measured {
    const char* what;
    LibraryHandles handles;
    Bytes mib;
  };
  for (const Measured& run : {
           Measured{"U-Net, fp32, batch 16: convolutions", {0, 2}, 632},
           Measured{"SqueezeNet, bf16, batch 4: convolutions", {0, 2}, 630},
           Measured{"MLP, fp32: matrix products", {2, 0}, 740},
           Measured{"GPT-2, fp32: matrix products", {2, 0}, 742},
           Measured{"ResNet-50, fp32, batch 1", {2, 2}, 760},
           Measured{"ResNet-50, bf16, batch 64", {2, 2}, 758},
           Measured{"MaxViT, fp32, batch 64", {2, 2}, 764},
           Measured{"GPT-2, fp32, inference, batch 4", {1, 0}, 678},
           Measured{"ViT-B/16, fp32, inference, batch 16", {1, 1}, 686},
           Measured{"U-Net, Adafactor: one matrix product in the optimizer", {1, 2}, 696},
       }) {
    CAPTURE(run.what);
    const ContextEstimate estimate = EstimateContext(H200(), run.handles);
    CHECK(estimate.low <= run.mib * kMiB);
    CHECK(run.mib * kMiB <= estimate.high);
    CHECK(estimate.high - estimate.low <= 8 * kMiB);
  }
}

TEST_CASE("handles that were not counted widen the interval") {
  const ContextEstimate known = EstimateContext(H200(), {2, 2});
  const ContextEstimate unknown = EstimateContext(H200(), {});
  CHECK(unknown.value == known.value);
  CHECK(unknown.low < known.low);
}
