#include "src/step/clusters.h"

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace memmodel::step {
namespace {

constexpr unsigned kSharedBytes = 200 << 10;
constexpr unsigned kLargestCluster = 16;

template <typename Function>
Function* Driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}
#define DRIVER(name) Driver<decltype(name)>(#name)

}  // namespace

std::vector<int> MaxActiveClusters(int major, int minor) {
  auto* const load = DRIVER(cuModuleLoadData);
  auto* const find = DRIVER(cuModuleGetFunction);
  auto* const set = DRIVER(cuFuncSetAttribute);
  auto* const ask = DRIVER(cuOccupancyMaxActiveClusters);
  if (major < 9 || load == nullptr || find == nullptr || set == nullptr || ask == nullptr)
    return {};
  const std::string ptx = ".version 7.8\n.target sm_" + std::to_string(10 * major + minor) +
                          "\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  if (load(&module, ptx.c_str()) != CUDA_SUCCESS ||
      find(&kernel, module, "nothing") != CUDA_SUCCESS ||
      set(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kSharedBytes) != CUDA_SUCCESS ||
      set(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) != CUDA_SUCCESS) {
    return {};
  }
  std::vector<int> clusters;
  for (unsigned blocks = 1; blocks <= kLargestCluster; ++blocks) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = blocks;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = blocks * 256;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = kSharedBytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int count = 0;
    if (ask(&count, kernel, &config) != CUDA_SUCCESS) return {};
    clusters.push_back(count);
  }
  return clusters;
}

}  // namespace memmodel::step
