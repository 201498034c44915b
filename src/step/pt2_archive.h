// Opens what torch.export.save wrote: the graph, and the tensors that belong to it.
//
// Layouts (torch/export/__init__.py and torch/export/pt2_archive/_package.py):
//   torch 2.5 - 2.7   records at the root: serialized_exported_program.json,
//                     serialized_state_dict.pt, serialized_constants.pt (torch.save
//                     files), version
//   torch 2.8         NAME/archive_format ("pt2"), NAME/models/MODEL.json,
//                     NAME/data/weights/MODEL.pt, NAME/data/constants/MODEL.pt
//   since torch 2.9   the same, weights as raw bytes: NAME/data/weights/weight_0,
//                     ... and MODEL_weights_config.json, which describes them
#ifndef MEMMODEL_SRC_STEP_PT2_ARCHIVE_H_
#define MEMMODEL_SRC_STEP_PT2_ARCHIVE_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "memmodel/status.h"
#include "src/step/pt2_schema.h"

namespace memmodel::step {

struct StoredTensor {
  // On the CPU. Without values it is one zero, expanded: shape and dtype are right,
  // all strides are 0.
  at::Tensor tensor;
  bool has_values = false;
};

// Names that share one tensor in the file hold the same at::Tensor.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

struct Pt2Archive {
  Program program;
  StoredTensors state;      // parameters and persistent buffers
  StoredTensors constants;  // other buffers, tensors that forward uses
};

// Values are read for tensors that may steer a program: whole numbers and booleans
// up to 4 MiB, others up to 64 KiB, parameters never.
Result<Pt2Archive> ReadPt2Archive(const std::string& path);

// A tensor without values, of the shape in `meta` (hints where it is symbolic).
// Throws c10::Error on absurd sizes.
at::Tensor HollowTensor(const TensorMeta& meta);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_ARCHIVE_H_
