// The tensors of a torch.save file that is itself a record of an archive: how torch
// 2.5 to 2.8 kept the weights of exported programs.
#ifndef MEMMODEL_SRC_STEP_PT2_PICKLES_H_
#define MEMMODEL_SRC_STEP_PT2_PICKLES_H_

#include <string>

#include "memmodel/status.h"
#include "src/step/pt2_archive.h"
#include "src/step/pt2_zip.h"

namespace memmodel::step {

// Adds the tensors of the dictionary in `record` to `tensors`. The data of storages
// above 64 KiB is not read. `path` stands in messages. Throws what LibTorch throws
// on a damaged file.
Status ReadPickledTensors(const ZipFile& zip, const std::string& record, const std::string& path,
                          StoredTensors& tensors);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_PICKLES_H_
