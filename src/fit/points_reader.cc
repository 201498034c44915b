#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "memmodel/fit.h"
#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

constexpr Bytes kSmallestTolerance = 20 * kMiB;
constexpr std::size_t kLargestFile = std::size_t{1} << 24;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(Trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Half a unit of the last digit of "8.4GB": 0.05 GB.
Result<Bytes> HalfOfLastDigit(std::string_view text) {
  std::string unit;
  bool last_seen = false;
  for (auto it = text.rbegin(); it != text.rend(); ++it) {
    const bool digit = *it >= '0' && *it <= '9';
    if (digit) {
      unit.insert(unit.begin(), last_seen ? '0' : '5');
      last_seen = true;
    } else {
      unit.insert(unit.begin(), *it);
    }
  }
  const Result<Bytes> ten_halves = ParseBytes(unit);  // five units
  if (!ten_halves.ok()) return ten_halves;
  return *ten_halves / 10;
}

Result<MeasuredPoint> ParsePoint(std::string_view batch, std::string_view size) {
  MeasuredPoint point;
  const auto r = std::from_chars(batch.data(), batch.data() + batch.size(), point.batch);
  if (r.ec != std::errc() || r.ptr != batch.data() + batch.size() || point.batch < 1 ||
      point.batch > MemoryModel::kLargestBatch) {
    return Status::InvalidArgument(std::string("'").append(batch.substr(0, 40)).append(
        "' is not a batch; a point is BATCH:SIZE, such as 8:3.8GB"));
  }
  const Result<Bytes> bytes = ParseBytes(size);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < kMiB) {
    return Status::InvalidArgument("batch " + std::to_string(point.batch) + " with " +
                                   std::to_string(*bytes) +
                                   " bytes: less than 1 MiB, is a unit missing (8:3.8GB)?");
  }
  point.bytes = *bytes;
  const Result<Bytes> half = HalfOfLastDigit(size);
  point.tolerance = std::max(kSmallestTolerance, half.ok() ? *half : Bytes{0});
  return point;
}

Result<std::vector<MeasuredPoint>> Sorted(std::vector<MeasuredPoint> points) {
  std::sort(points.begin(), points.end(),
            [](const MeasuredPoint& a, const MeasuredPoint& b) { return a.batch < b.batch; });
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (points[i].batch == points[i - 1].batch) {
      return Status::InvalidArgument("two points at batch " + std::to_string(points[i].batch));
    }
  }
  return points;
}

}  // namespace

Result<std::vector<MeasuredPoint>> ParsePoints(std::string_view text) {
  std::vector<MeasuredPoint> points;
  for (const std::string_view part : Split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      return Status::InvalidArgument(std::string("'").append(part.substr(0, 40)).append(
          "' is not a point; write BATCH:SIZE, such as 8:3.8GB"));
    }
    Result<MeasuredPoint> point =
        ParsePoint(Trimmed(part.substr(0, colon)), Trimmed(part.substr(colon + 1)));
    if (!point.ok()) return point.status();
    points.push_back(*point);
  }
  return Sorted(std::move(points));
}

Result<std::vector<MeasuredPoint>> ReadPointsCsv(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  std::istringstream lines(*text);
  std::string line;
  std::size_t number = 0, batch = 0, bytes = 0, columns = 0;
  std::vector<MeasuredPoint> points;
  while (std::getline(lines, line)) {
    ++number;
    if (Trimmed(line).empty()) continue;
    const std::vector<std::string_view> fields = Split(line, ',');
    if (columns == 0) {
      columns = fields.size();
      const auto column = [&](std::initializer_list<std::string_view> names) {
        for (const std::string_view name : names) {
          const auto it = std::find(fields.begin(), fields.end(), name);
          if (it != fields.end()) return static_cast<std::size_t>(it - fields.begin());
        }
        return columns;
      };
      batch = column({"batch"});
      bytes = column({"bytes", "device_bytes", "nvml", "reserved_bytes", "memory"});
      if (batch == columns || bytes == columns) {
        return Status::BadInput(path +
                                ": the first line must name the columns 'batch' and 'bytes' (or "
                                "device_bytes, nvml, reserved_bytes, memory)");
      }
      continue;
    }
    if (fields.size() != columns) {
      return Status::BadInput(path + ":" + std::to_string(number) + ": " +
                              std::to_string(fields.size()) + " fields, the header has " +
                              std::to_string(columns));
    }
    Result<MeasuredPoint> point = ParsePoint(fields[batch], fields[bytes]);
    if (!point.ok()) {
      return Status::BadInput(path + ":" + std::to_string(number) + ": " +
                              point.status().message());
    }
    points.push_back(*point);
  }
  if (points.empty()) return Status::BadInput(path + " holds no points");
  return Sorted(std::move(points));
}

}  // namespace memmodel
