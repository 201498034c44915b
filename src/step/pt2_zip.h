// Reads single records of a zip archive, without the rest of the file.
//
// torch.export wrote its archives with Python's zipfile until torch 2.7 (records
// at the root) and with PyTorch's own writer since 2.8 (records below one
// folder); PyTorchStreamReader reads only the latter kind, hence this reader. It
// knows what both writers use: methods "stored" and "deflate", and zip64. The
// format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
#ifndef MEMMODEL_SRC_STEP_PT2_ZIP_H_
#define MEMMODEL_SRC_STEP_PT2_ZIP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

class ZipFile {
 public:
  // Reads the central directory of the file at `path`.
  static Result<ZipFile> Open(const std::string& path);

  [[nodiscard]] bool Has(std::string_view name) const;
  // Bytes of a record once unpacked; 0 for a record that does not exist.
  [[nodiscard]] std::uint64_t Size(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> Names() const;

  // A record, unpacked and checked against its CRC-32. Refuses records of more
  // than `limit` bytes.
  [[nodiscard]] Result<std::string> Read(std::string_view name, std::uint64_t limit) const;

  // Copies `size` bytes at `offset` of a stored record, unchecked; less at its
  // end. Fails for packed records.
  [[nodiscard]] Result<std::uint64_t> ReadPart(std::string_view name, std::uint64_t offset,
                                               void* destination, std::uint64_t size) const;

 private:
  struct Entry {
    std::uint64_t packed_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint64_t header_offset = 0;
    std::uint32_t crc = 0;
    std::uint16_t method = 0;
    std::uint16_t flags = 0;
  };
  class File;

  Status ReadDirectory();
  Result<std::uint64_t> DataOffset(const Entry& entry) const;

  std::string path_;
  std::shared_ptr<File> file_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PT2_ZIP_H_
