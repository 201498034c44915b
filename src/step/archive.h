// What kind of file was given: looked at before anything in it is trusted.
#ifndef MEMMODEL_SRC_STEP_ARCHIVE_H_
#define MEMMODEL_SRC_STEP_ARCHIVE_H_

#include <memory>
#include <string>

#include "memmodel/status.h"
#include "src/step/sparse_file.h"

namespace memmodel::step {

enum class ArchiveKind {
  kTorchScript,      // torch.jit.save
  kExportedProgram,  // torch.export.save
  kPickle,           // torch.save in its zip form: a state_dict, a module, anything
  kLegacyPickle,     // torch.save before PyTorch 1.6, or with the old serialization
};

struct Archive {
  ArchiveKind kind = ArchiveKind::kTorchScript;
  std::shared_ptr<SparseFile> file;  // large tensor records are skipped
  std::string pickle;                // kPickle: the bytes of data.pkl
};

// Fails with one line that says what was found and what to do: for a missing or
// unreadable path, an empty, truncated or foreign file, and archives whose
// directory declares more bytes than the file can hold.
Result<Archive> OpenArchive(const std::string& path);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_ARCHIVE_H_
