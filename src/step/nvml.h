// What the driver counts for this process.
#ifndef MEMMODEL_SRC_STEP_NVML_H_
#define MEMMODEL_SRC_STEP_NVML_H_

#include <optional>
#include <string>

#include "memmodel/bytes.h"

namespace memmodel::step {

// Bytes of this process on the first CUDA device, as nvidia-smi shows them; nullopt
// where NVML is missing or does not list the process (a container whose process
// numbers are not the driver's).
std::optional<Bytes> NvmlProcessBytes();

std::string NvmlDriverVersion();  // "580.159.04"; "" if not known

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_NVML_H_
