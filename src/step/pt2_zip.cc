#include "src/step/pt2_zip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

namespace memmodel::step {
namespace {

constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kEntrySignature = 0x02014b50;
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64LocatorBytes = 20;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMaxComment = 65535;
// A network of 100,000 parameters has a directory of some 15 MB.
constexpr std::uint64_t kMaxDirectoryBytes = std::uint64_t{256} << 20;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;

// Little-endian numbers of a byte string; reading past the end gives 0 and
// clears `ok`.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t Number(std::size_t at, std::size_t width) {
    if (at > bytes_.size() || width > bytes_.size() - at) {
      ok_ = false;
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    }
    return value;
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace

class ZipFile::File {
 public:
  File(int descriptor, std::uint64_t size) : descriptor_(descriptor), size_(size) {}
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }

  bool ReadInto(std::uint64_t offset, void* destination, std::uint64_t count) const {
    if (offset > size_ || count > size_ - offset) return false;
    auto* out = static_cast<char*>(destination);
    while (count > 0) {
      const ssize_t n = ::pread(descriptor_, out, std::min<std::uint64_t>(count, 1 << 30),
                                static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      out += n;
      offset += static_cast<std::uint64_t>(n);
      count -= static_cast<std::uint64_t>(n);
    }
    return true;
  }
  [[nodiscard]] std::optional<std::string> Bytes(std::uint64_t offset, std::uint64_t count) const {
    if (offset > size_ || count > size_ - offset) return std::nullopt;
    std::string bytes(count, '\0');
    if (!ReadInto(offset, bytes.data(), count)) return std::nullopt;
    return bytes;
  }

 private:
  int descriptor_;
  std::uint64_t size_;
};

Result<ZipFile> ZipFile::Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Status::BadInput(path + ": cannot be read: " + std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return Status::BadInput(path + ": is not a file");
  }
  ZipFile zip;
  zip.path_ = path;
  zip.file_ = std::make_shared<File>(descriptor, static_cast<std::uint64_t>(info.st_size));
  if (Status status = zip.ReadDirectory(); !status.ok()) return status;
  return zip;
}

Status ZipFile::ReadDirectory() {
  const Status broken = Status::BadInput(
      path_ +
      ": is not a whole zip archive (its directory at the end is missing or damaged); "
      "was it copied completely?");
  const std::uint64_t tail_bytes =
      std::min<std::uint64_t>(file_->size(), kEndBytes + kMaxComment + kEnd64LocatorBytes);
  const auto tail = file_->Bytes(file_->size() - tail_bytes, tail_bytes);
  if (!tail || tail->size() < kEndBytes) return broken;

  std::size_t end = tail->size() - kEndBytes + 1;
  Fields fields(*tail);
  do {
    if (end == 0) return broken;
    --end;
  } while (fields.Number(end, 4) != kEndSignature ||
           end + kEndBytes + fields.Number(end + 20, 2) > tail->size());
  std::uint64_t count = fields.Number(end + 10, 2);
  std::uint64_t directory_bytes = fields.Number(end + 12, 4);
  std::uint64_t directory_offset = fields.Number(end + 16, 4);

  if (end >= kEnd64LocatorBytes &&
      fields.Number(end - kEnd64LocatorBytes, 4) == kEnd64LocatorSignature) {
    const auto end64 = file_->Bytes(fields.Number(end - kEnd64LocatorBytes + 8, 8), kEnd64Bytes);
    if (!end64) return broken;
    Fields fields64(*end64);
    if (fields64.Number(0, 4) != kEnd64Signature) return broken;
    count = fields64.Number(32, 8);
    directory_bytes = fields64.Number(40, 8);
    directory_offset = fields64.Number(48, 8);
  }
  if (directory_bytes > kMaxDirectoryBytes || count > directory_bytes / kEntryBytes) return broken;
  const auto directory = file_->Bytes(directory_offset, directory_bytes);
  if (!directory) return broken;

  Fields d(*directory);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (d.Number(at, 4) != kEntrySignature) return broken;
    Entry entry;
    entry.flags = static_cast<std::uint16_t>(d.Number(at + 8, 2));
    entry.method = static_cast<std::uint16_t>(d.Number(at + 10, 2));
    entry.crc = static_cast<std::uint32_t>(d.Number(at + 16, 4));
    entry.packed_bytes = d.Number(at + 20, 4);
    entry.bytes = d.Number(at + 24, 4);
    entry.header_offset = d.Number(at + 42, 4);
    const std::size_t name_bytes = d.Number(at + 28, 2);
    const std::size_t extra_bytes = d.Number(at + 30, 2);
    const std::size_t comment_bytes = d.Number(at + 32, 2);
    const std::size_t name_at = at + kEntryBytes;
    if (!d.ok() || name_at + name_bytes + extra_bytes + comment_bytes > directory->size()) {
      return broken;
    }
    // Zip64: the sizes that did not fit stand in the extra field with id 1, in order.
    Fields extra(std::string_view(*directory).substr(name_at + name_bytes, extra_bytes));
    for (std::size_t e = 0; e + 4 <= extra_bytes;) {
      const std::size_t bytes = extra.Number(e + 2, 2);
      if (extra.Number(e, 2) == 1) {
        std::size_t next = e + 4;
        for (std::uint64_t* field : {&entry.bytes, &entry.packed_bytes, &entry.header_offset}) {
          if (*field != 0xffffffff) continue;
          *field = extra.Number(next, 8);
          next += 8;
        }
      }
      e += 4 + bytes;
    }
    if (!extra.ok()) return broken;
    entries_.insert_or_assign(directory->substr(name_at, name_bytes), entry);
    at = name_at + name_bytes + extra_bytes + comment_bytes;
  }
  return Status::Ok();
}

bool ZipFile::Has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

std::uint64_t ZipFile::Size(std::string_view name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? 0 : it->second.bytes;
}

std::vector<std::string> ZipFile::Names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

Result<std::uint64_t> ZipFile::DataOffset(const Entry& entry) const {
  const auto header = file_->Bytes(entry.header_offset, kLocalBytes);
  if (!header) return Status::BadInput("it starts behind the end of the file");
  Fields fields(*header);
  if (fields.Number(0, 4) != kLocalSignature) return Status::BadInput("its header is damaged");
  if ((entry.flags & 1) != 0) return Status::BadInput("it is encrypted");
  const std::uint64_t offset =
      entry.header_offset + kLocalBytes + fields.Number(26, 2) + fields.Number(28, 2);
  if (offset > file_->size() || entry.packed_bytes > file_->size() - offset) {
    return Status::BadInput("it ends behind the end of the file");
  }
  return offset;
}

Result<std::string> ZipFile::Read(std::string_view name, std::uint64_t limit) const {
  const auto error = [&](const std::string& why) {
    return Status::BadInput(path_ + ": record " + std::string(name) + ": " + why);
  };
  const auto it = entries_.find(name);
  if (it == entries_.end()) return error("it is missing");
  const Entry& entry = it->second;
  if (entry.bytes > limit) {
    return error("it has " + std::to_string(entry.bytes) + " bytes, expected at most " +
                 std::to_string(limit));
  }
  const Result<std::uint64_t> offset = DataOffset(entry);
  if (!offset.ok()) return error(offset.status().message());

  auto packed = file_->Bytes(*offset, entry.packed_bytes);
  if (!packed) return error("it cannot be read");
  std::string bytes;
  if (entry.method == kStored) {
    if (entry.packed_bytes != entry.bytes) return error("its two sizes differ");
    bytes = *std::move(packed);
  } else if (entry.method == kDeflated) {
    bytes.resize(entry.bytes);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Status::Internal("zlib cannot start");
    stream.next_in = reinterpret_cast<Bytef*>(packed->data());
    stream.avail_in = static_cast<uInt>(std::min<std::uint64_t>(packed->size(), UINT32_MAX));
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(std::min<std::uint64_t>(bytes.size(), UINT32_MAX));
    const int result = inflate(&stream, Z_FINISH);
    const bool whole = result == Z_STREAM_END && stream.total_out == bytes.size();
    inflateEnd(&stream);
    if (!whole) return error("it cannot be unpacked");
  } else {
    return error("its compression method " + std::to_string(entry.method) + " is not known");
  }
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != entry.crc) return error("its checksum is wrong");
  return bytes;
}

Result<std::uint64_t> ZipFile::ReadPart(std::string_view name, std::uint64_t offset,
                                        void* destination, std::uint64_t size) const {
  const auto error = [&](const std::string& why) {
    return Status::BadInput(path_ + ": record " + std::string(name) + ": " + why);
  };
  const auto it = entries_.find(name);
  if (it == entries_.end()) return error("it is missing");
  if (it->second.method != kStored) return error("it is packed");
  const Result<std::uint64_t> start = DataOffset(it->second);
  if (!start.ok()) return error(start.status().message());
  if (offset >= it->second.packed_bytes) return std::uint64_t{0};
  size = std::min(size, it->second.packed_bytes - offset);
  if (!file_->ReadInto(*start + offset, destination, size)) return error("it cannot be read");
  return size;
}

}  // namespace memmodel::step
