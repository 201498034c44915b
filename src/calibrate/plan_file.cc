#include "src/calibrate/plan_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

constexpr std::string_view kMagic = "# memmodel cudnn plans 1; cudnn ";
constexpr std::string_view kDevice = "; device ";
constexpr std::string_view kSource = "; source: ";
constexpr std::size_t kLargestFile = std::size_t{256} << 20;

bool Number(std::string_view text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// The part up to `end`, which is taken off `text` with it; false if it is not there.
bool Cut(std::string_view* text, std::string_view end, std::string_view* part) {
  const std::size_t at = text->find(end);
  if (at == std::string_view::npos) return false;
  *part = text->substr(0, at);
  text->remove_prefix(at + end.size());
  return true;
}

}  // namespace

bool IsPlanKey(std::string_view key) {
  std::string_view operation, type;
  if (!Cut(&key, " ", &operation) || !Cut(&key, " ", &type)) return false;
  if (operation != "fwd" && operation != "dgrad" && operation != "wgrad") return false;
  if (type != "f32" && type != "f16" && type != "bf16") return false;
  // N C H W K R S padH padW strideH strideW dilationH dilationW groups channels_last
  constexpr std::array<std::int64_t, 15> kLeast = {1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0};
  for (std::size_t i = 0; i < kLeast.size(); ++i) {
    std::string_view word = key;
    if (i + 1 < kLeast.size() && !Cut(&key, " ", &word)) return false;
    std::int64_t value = 0;
    if (!Number(word, &value) || value < kLeast[i] || value > INT32_MAX) return false;
    if (i + 1 == kLeast.size() && value > 1) return false;
  }
  return true;
}

Result<PlanFile> ReadPlanFile(const std::string& path) {
  Result<std::string> text = ReadFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  std::string_view rest = *text, first, version, device;
  PlanFile file;
  if (!rest.starts_with(kMagic) || !Cut(&rest, "\n", &first)) {
    return Status::BadInput(path + " is no cuDNN table of version 1: its first line is wrong");
  }
  first.remove_prefix(kMagic.size());
  if (!Cut(&first, kDevice, &version) || !Number(version, &file.cudnn_version) ||
      !Cut(&first, kSource, &device)) {
    return Status::BadInput(path + " is no cuDNN table of version 1: its first line is wrong");
  }
  file.device_name = device;
  file.source = first;
  for (std::string_view line; Cut(&rest, "\n", &line);) {
    const std::size_t engine = line.rfind(' ');
    const std::size_t bytes =
        engine == std::string_view::npos || engine == 0 ? engine : line.rfind(' ', engine - 1);
    if (bytes == std::string_view::npos || !IsPlanKey(line.substr(0, bytes))) {
      return Status::BadInput(path + ": '" + std::string(line.substr(0, 100)) + "' is no plan");
    }
    file.rows.emplace(line.substr(0, bytes), line.substr(bytes + 1));
  }
  return file;
}

Status WritePlanFile(const PlanFile& file, const std::string& path) {
  std::vector<std::string> lines;
  lines.reserve(file.rows.size());
  for (const auto& [key, plan] : file.rows) lines.push_back(key + " " + plan + "\n");
  std::sort(lines.begin(), lines.end());
  std::string text;
  text.append(kMagic).append(std::to_string(file.cudnn_version)).append(kDevice);
  text.append(file.device_name).append(kSource).append(file.source).append("\n");
  for (const std::string& line : lines) text += line;
  return WriteFileAtomically(path, text);
}

}  // namespace memmodel
