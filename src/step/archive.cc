#include "src/step/archive.h"

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memmodel/bytes.h"
#include "src/step/pt2_zip.h"
#include "src/step/torch_compat.h"

namespace memmodel::step {
namespace {

using caffe2::serialize::PyTorchStreamReader;

constexpr std::string_view kWhatToGive =
    "expected a file of torch.jit.save (.pt) or torch.export.save (.pt2)";
// Code and debug records are compressed; PyTorch stores tensors as they are. So
// what a directory declares can be larger than the file by unpacked text alone.
constexpr std::size_t kLargestText = std::size_t{512} << 20;
constexpr std::size_t kLargeTensor = std::size_t{1} << 20;  // above: data is not read

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Records that hold raw tensor bytes.
bool IsTensorRecord(std::string_view name) {
  for (const std::string_view folder : {"data/", "constants/", "tensors/"}) {
    const std::size_t at = name.rfind(folder);
    if (at == std::string_view::npos || (at != 0 && name[at - 1] != '/')) continue;
    const std::string_view rest = name.substr(at + folder.size());
    if (!rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos)
      return true;
  }
  const std::size_t slash = name.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? name : name.substr(slash + 1);
  return last.starts_with("weight_") || last.starts_with("tensor_");
}

Result<Archive> NotAZip(const std::string& path, const SparseFile& file, Archive archive) {
  std::array<unsigned char, 2> start{};
  file.read(0, start.data(), start.size());
  // A pickle of protocol 2 to 5; torch.save's old form starts with one.
  if (start[0] == 0x80 && start[1] >= 2 && start[1] <= 5) {
    archive.kind = ArchiveKind::kLegacyPickle;
    return archive;
  }
  if (start[0] == 'P' && start[1] == 'K') {
    return Status::BadInput(path +
                            " is truncated or damaged: it starts as a zip archive, but its "
                            "directory at the end cannot be read; copy or export it again");
  }
  return Status::BadInput(path + " is no PyTorch archive (not a zip file); " +
                          std::string(kWhatToGive));
}

}  // namespace

Result<Archive> OpenArchive(const std::string& path) {
  Result<std::shared_ptr<SparseFile>> file = SparseFile::Open(path);
  if (!file.ok()) return file.status();
  Archive archive;
  archive.file = *file;
  if (archive.file->size() == 0) {
    return Status::BadInput(path + " is empty; " + std::string(kWhatToGive));
  }
  std::unique_ptr<PyTorchStreamReader> reader;
  try {
    reader = std::make_unique<PyTorchStreamReader>(archive.file);
  } catch (const std::exception& e) {
    // Until torch 2.7 torch.export.save wrote its records without a folder, which
    // PyTorchStreamReader does not take.
    const Result<ZipFile> zip = ZipFile::Open(path);
    if (zip.ok() && zip->Has("serialized_exported_program.json")) {
      archive.kind = ArchiveKind::kExportedProgram;
      return archive;
    }
    std::array<unsigned char, 4> start{};
    archive.file->read(0, start.data(), start.size());
    const std::string text = FirstLine(e);
    if (start == std::array<unsigned char, 4>{'P', 'K', 3, 4} &&
        text.find("central directory") == std::string::npos) {
      return Status::BadInput(path + " is a zip file, but no PyTorch archive (" + text + "); " +
                              std::string(kWhatToGive));
    }
    return NotAZip(path, *archive.file, archive);
  }
  try {
    std::size_t declared = 0;
    bool code = false;
    bool constants = false;
    bool exported = false;
    std::string pickle;
    for (const std::string& name : reader->getAllRecords()) {
      const std::size_t size = reader->getRecordSize(name);
      declared += std::min(size, std::size_t{1} << 62);
      if (declared > archive.file->size() + kLargestText) {
        return Status::BadInput(
            path + " declares more than " + FormatBytes(static_cast<Bytes>(declared)) +
            " of data in a file of " + FormatBytes(static_cast<Bytes>(archive.file->size())) +
            ": not loaded; export the model again");
      }
      code = code || name.starts_with("code/");
      constants = constants || name == "constants.pkl";
      exported = exported || EndsWith(name, "serialized_exported_program.json") ||
                 (EndsWith(name, ".json") && name.find("models/") != std::string::npos);
      if (name == "data.pkl") pickle = name;
      if (IsTensorRecord(name) && size > kLargeTensor) {
        const std::size_t offset = reader->getRecordOffset(name);
        if (offset + size > archive.file->size()) {
          return Status::BadInput(path + " is truncated: its record " + name +
                                  " ends after the file does");
        }
        archive.file->Skip(offset, size);
      }
    }
    if (exported) {
      archive.kind = ArchiveKind::kExportedProgram;
    } else if (!pickle.empty() && code && constants) {
      archive.kind = ArchiveKind::kTorchScript;
    } else if (!pickle.empty()) {
      archive.kind = ArchiveKind::kPickle;
      const auto [data, size] = reader->getRecord(pickle);
      archive.pickle.assign(static_cast<const char*>(data.get()), size);
    } else {
      return Status::BadInput(path + " is a zip file that holds no model; " +
                              std::string(kWhatToGive));
    }
  } catch (const std::exception& e) {
    return Status::BadInput(path + " cannot be read: " + FirstLine(e));
  }
  return archive;
}

}  // namespace memmodel::step
