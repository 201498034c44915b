// Bytes to gzip and back.
#ifndef MEMMODEL_SRC_CORE_GZIP_H_
#define MEMMODEL_SRC_CORE_GZIP_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "memmodel/status.h"

namespace memmodel {

std::string GzipCompress(std::string_view contents);

// Unpacks gzip data; anything else is returned as it is. Data that ends early,
// is damaged, or unpacks to more than `limit` bytes is an error that names `name`.
Result<std::string> GzipExpand(std::string_view data, std::size_t limit, const std::string& name);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_CORE_GZIP_H_
