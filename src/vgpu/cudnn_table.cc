#include "src/vgpu/cudnn_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace memmodel::vgpu {
namespace {

constexpr std::string_view kMagic = "# memmodel cudnn plans 1; cudnn ";
constexpr std::string_view kDevice = "; device ";

// Reads a whole number at the start of `text` and steps behind it.
bool Number(std::string_view* text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

}  // namespace

Result<PlanTable> PlanTable::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Status::BadInput("cannot read the cuDNN table " + path);
  struct stat info {};
  void* mapped = MAP_FAILED;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    mapped = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (mapped == MAP_FAILED) return Status::BadInput("cannot read the cuDNN table " + path);
  PlanTable table;
  table.mapped_ = static_cast<const char*>(mapped);
  table.bytes_ = static_cast<std::size_t>(info.st_size);
  const std::string_view text(table.mapped_, table.bytes_);
  std::string_view first = text.substr(0, text.find('\n'));
  const bool known = first.starts_with(kMagic);
  if (known) first.remove_prefix(kMagic.size());
  if (!known || !Number(&first, &table.cudnn_version_) || !first.starts_with(kDevice)) {
    return Status::BadInput(path + " is no cuDNN table of version 1: its first line is wrong");
  }
  first.remove_prefix(kDevice.size());
  table.device_ = first.substr(0, first.find(';'));
  table.rows_ = text.substr(std::min(text.find('\n') + 1, text.size()));
  return table;
}

PlanTable::PlanTable(PlanTable&& other) noexcept { *this = std::move(other); }

PlanTable& PlanTable::operator=(PlanTable&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(bytes_, other.bytes_);
  std::swap(rows_, other.rows_);
  std::swap(cudnn_version_, other.cudnn_version_);
  std::swap(device_, other.device_);
  return *this;
}

PlanTable::~PlanTable() {
  if (mapped_ != nullptr) munmap(const_cast<char*>(mapped_), bytes_);
}

std::optional<PlanTable::Row> PlanTable::Find(std::string_view key) const {
  // Invariant: the line, if there is one, starts in [low, high); low starts a line.
  std::size_t low = 0;
  std::size_t high = rows_.size();
  while (low < high) {
    std::size_t start = low + (high - low) / 2;
    const std::size_t before = start == 0 ? std::string_view::npos : rows_.rfind('\n', start - 1);
    start = before == std::string_view::npos ? 0 : before + 1;
    if (start < low) start = low;
    const std::size_t end = std::min(rows_.find('\n', start), rows_.size());
    std::string_view line = rows_.substr(start, end - start);
    const std::string_view name = line.substr(0, key.size());
    const bool whole = line.size() > key.size() && line[key.size()] == ' ';
    if (name == key && whole) {
      line.remove_prefix(key.size() + 1);
      Row row;
      if (!Number(&line, &row.workspace) || line.empty()) return std::nullopt;
      line.remove_prefix(1);
      return Number(&line, &row.engine) ? std::optional(row) : std::nullopt;
    }
    // Lines are in order of their bytes, the blank behind the key included.
    const bool less =
        name != key ? name < key : line.size() <= key.size() || line[key.size()] < ' ';
    if (less) {
      low = end + 1;
    } else {
      high = start;
    }
  }
  return std::nullopt;
}

}  // namespace memmodel::vgpu
