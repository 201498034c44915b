// The GPU that a probe runs on, virtual or real.
#ifndef MEMMODEL_SRC_STEP_DEVICE_H_
#define MEMMODEL_SRC_STEP_DEVICE_H_

#include <string>

#include "src/step/answer.h"
#include "src/step/job.h"

namespace memmodel::step {

// Initialises CUDA and the caching allocator with the job's settings and the
// probe's sizes, as `import torch; torch.cuda.init()` and the settings of a script
// would. Once a process, before any other use of the GPU. Throws c10::Error.
void StartDevice(const Job& job, const Probe& probe);

// Statistics of the caching allocator since the start of the process.
void ReadPeaks(ProbeAnswer* answer);
PhaseFigures ReadPhase();  // since the last call; starts the next phase
Bytes ReservedBytes();

// The virtual GPU's own report as JSON; on a real one {"measured_bytes": N}, NVML's figure
// for this process less reserved memory, or "" if NVML does not say.
std::string DeviceReport();

std::string TorchVersion();
std::int64_t CudnnVersion();

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_DEVICE_H_
