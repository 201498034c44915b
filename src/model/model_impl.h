// What a MemoryModel holds.
#ifndef MEMMODEL_SRC_MODEL_MODEL_IMPL_H_
#define MEMMODEL_SRC_MODEL_MODEL_IMPL_H_

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/allocator_settings.h"
#include "memmodel/memory_model.h"
#include "src/model/peak.h"
#include "src/model/program.h"

namespace memmodel {

struct ModelPoint {
  Bytes allocated = 0, reserved = 0;
  ByteRange allocated_range, reserved_range;
};

// How far off the model is at traced batches when they are left out of it: the
// largest relative error.
struct HeldOutErrors {
  double allocated = 0, reserved = 0;
};

struct MemoryModel::Impl {
  Impl(Program p, AllocatorSettings s);

  Program program;
  AllocatorSettings settings;
  PeakEnvelope envelope;
  // [s]: between traced batches s and s + 1 all requests are the same and exact.
  std::vector<bool> exact_after;
  // The last batch at which all planned workspaces are known.
  std::int64_t planned_to = MemoryModel::kLargestBatch;
  std::string metadata;
  std::string alloc_conf;
  std::optional<Bytes> context_bytes;
  HeldOutErrors held_out;
  std::vector<ModelPoint> curve;  // [b - 1]

  // Made when first asked for: fitting workspaces takes longer than all else.
  mutable std::once_flag layers_made;
  mutable std::vector<LayerModel> layers;
  mutable std::vector<OrderChange> order_changes;
  mutable std::vector<FittedSizes> fitted_sizes;

  [[nodiscard]] ModelPoint Simulate(std::int64_t batch) const;
  [[nodiscard]] ModelBasis Basis(std::int64_t batch) const;
  void HoldOut();
  void MakeCurve(std::int64_t batches);
  void MakeLayers() const;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_MODEL_IMPL_H_
