// Whole files, written so that a reader never sees half of one.
#ifndef MEMMODEL_SRC_CORE_ATOMIC_FILE_H_
#define MEMMODEL_SRC_CORE_ATOMIC_FILE_H_

#include <span>
#include <string>
#include <string_view>

#include "memmodel/status.h"

namespace memmodel {

// Writes `contents` to a temporary file beside `path` and renames it into
// place; on any failure (full disk, no permission) the temporary file is
// removed and what was at `path` stays.
Status WriteFileAtomically(const std::string& path, std::string_view contents);
// The same with contents that lie in pieces.
Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces);

// The whole of a regular file of at most `limit` bytes.
Result<std::string> ReadFile(const std::string& path, std::size_t limit);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_ATOMIC_FILE_H_
