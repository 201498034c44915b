// What the stand-ins read, for a test on one device.
#ifndef MEMMODEL_TESTS_CUDNN_ENVIRONMENT_H_
#define MEMMODEL_TESTS_CUDNN_ENVIRONMENT_H_

#include <string>

#include "tests/cudnn/convolution_plan.h"

namespace memmodel::cudnn_plans {

// Without a calibrated table and without kept answers.
inline Environment OnDevice(const std::string& file) {
  return {{"MEMMODEL_VGPU_DEVICE", file},
          {"MEMMODEL_VGPU_CUDNN", MEMMODEL_CUDNN},
          {"MEMMODEL_VGPU_CUBLASLT", MEMMODEL_CUBLASLT},
          {"MEMMODEL_VGPU_CUDNN_TABLE", "0"},
          {"MEMMODEL_VGPU_CACHE", ""}};
}
inline std::string DeviceFile(const std::string& name) {
  return MEMMODEL_SOURCE_DIR "/data/devices/" + name + ".json";
}

}  // namespace memmodel::cudnn_plans

#endif  // MEMMODEL_TESTS_CUDNN_ENVIRONMENT_H_
