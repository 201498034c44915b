// What `memmodel calibrate` asks of the machine's GPU: its properties, what a context
// and the libraries' handles take, and cuDNN's plans; and what single operators ask for.
// Nothing of a network is run.
#ifndef MEMMODEL_SRC_STEP_CALIBRATE_H_
#define MEMMODEL_SRC_STEP_CALIBRATE_H_

#include <string>

namespace memmodel::step {

// `line`: {"calibrate":1, "device":"cuda", "figures":true, "plans":["fwd f32 ...", ...],
// "operators":["aten::sum ...", ...]}.
// Returns one line:
//   {"calibrated":1, "figures":{"device_name", "total_bytes", "driver_version", "torch_version",
//    "cudnn_version", "cuda":{...}, "max_active_clusters":[...], "context":{"primary_bytes",
//    "first_kernel_bytes", "cublas_handle_bytes", "cudnn_handle_bytes", "system_bytes"}},
//    "cudnn_version", "plans":[[bytes, engine], ...], "operators":[[bytes, ...], ...]}
// figures only if asked; a context figure that could not be measured is left out, and so
// are the clusters. plans in the order asked; -1 for what cuDNN has no plan for. operators
// if asked (operator_requests.h); null for what cannot be called. Else an error line of the child
// protocol.
std::string Calibrate(const std::string& line);

}  // namespace memmodel::step

// Entry point of libmemmodel_step.so: answers on `out_fd`; returns the exit code.
extern "C" __attribute__((visibility("default"))) int memmodel_step_calibrate(const char* line,
                                                                              int out_fd);

#endif  // MEMMODEL_SRC_STEP_CALIBRATE_H_
