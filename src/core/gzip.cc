#include "src/core/gzip.h"

#include <zlib.h>

#include <array>

namespace memmodel {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, with gzip's header

}  // namespace

std::string GzipCompress(std::string_view contents) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Result<std::string> GzipExpand(std::string_view data, std::size_t limit, const std::string& name) {
  if (!data.starts_with("\x1f\x8b")) {
    if (data.size() > limit) {
      return Status::BadInput(name + " is larger than " + std::to_string(limit) + " bytes");
    }
    return std::string(data);
  }
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return Status::Internal("zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::string out;
  std::array<char, 1 << 16> buffer{};
  int code = Z_OK;
  while (code == Z_OK && out.size() <= limit) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (out.size() > limit) {
    return Status::BadInput(name + " unpacks to more than " + std::to_string(limit) + " bytes");
  }
  if (code != Z_STREAM_END) {
    return Status::BadInput(
        name + (code == Z_BUF_ERROR ? ": the gzip data ends early" : ": the gzip data is damaged"));
  }
  return out;
}

}  // namespace memmodel
