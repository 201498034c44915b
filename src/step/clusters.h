// How many thread block clusters the GPU runs at once.
#ifndef MEMMODEL_SRC_STEP_CLUSTERS_H_
#define MEMMODEL_SRC_STEP_CLUSTERS_H_

#include <vector>

namespace memmodel::step {

// What cuOccupancyMaxActiveClusters says for clusters of 1, 2, ... 16 blocks of a kernel
// with 200 KiB of shared memory, so that each block has a multiprocessor to itself; empty
// for a GPU without clusters or a driver that does not say.
std::vector<int> MaxActiveClusters(int major, int minor);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_CLUSTERS_H_
