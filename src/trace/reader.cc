// Reads the format of docs/trace_format.md. Files are read with zlib's gzread,
// which takes plain text as well as gzip.
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>

#include "memmodel/trace.h"

namespace memmodel {
namespace {

constexpr std::size_t kLargestFile = std::size_t{2} << 30;  // uncompressed bytes
constexpr std::string_view kHeader = "! memmodel-trace ";

// Cuts `line` at its first space: returns what is before, leaves what is after.
std::string_view TakeField(std::string_view* line) {
  const std::size_t end = std::min(line->find(' '), line->size());
  const std::string_view field = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return field;
}

template <typename T>
bool ParseNumber(std::string_view text, T* value, int base = 10) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() && !text.empty();
}

class Parser {
 public:
  explicit Parser(std::string name) : name_(std::move(name)) {}

  Result<Trace> Run(std::string_view text) {
    while (!text.empty()) {
      ++line_number_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty()) continue;
      if (Status status = ParseLine(line); !status.ok()) return status;
    }
    if (line_number_ == 0) {
      return Status::BadInput(name_ + " is empty; expected a trace or request stream");
    }
    return std::move(trace_);
  }

 private:
  [[nodiscard]] Status Error(const std::string& what) const {
    return Status::BadInput(name_ + ":" + std::to_string(line_number_) + ": " + what);
  }

  Status ParseLine(std::string_view line) {
    const std::string whole(line.substr(0, 60));
    const char kind = line[0];
    if (kind == '!') return ParseHeader(line);
    if (line.size() < 2 || line[1] != ' ') {
      return Error("expected a record such as 'a ADDR BYTES STREAM', found '" + whole + "'");
    }
    std::string_view rest = line.substr(2);
    switch (kind) {
      case '=':
        trace_.metadata = rest;
        return {};
      case 'o':
        trace_.operators.emplace_back(rest);
        return {};
      case 'm': {
        const std::string type(TakeField(&rest));
        trace_.modules.push_back({std::string(rest), type});
        return {};
      }
      case '#': {
        Event event;
        event.text = trace_.AddText(rest);
        trace_.events.push_back(event);
        return {};
      }
      case 't':
        return ParseTag(rest);
      case 'd': {
        const std::optional<ContextOccasion> occasion = ParseOccasion(rest);
        if (!occasion) return Error("unknown occasion '" + std::string(rest) + "'");
        trace_.events.push_back({.kind = EventKind::kContext, .occasion = *occasion});
        return {};
      }
      case 'w':
        return ParseConvolution(rest);
      case 'r':
        return ParseCall(rest);
      case 'a':
      case 'f':
      case 'c':
      case 'S':
      case 'X':
      case 'M':
      case 'U':
      case 'O':
        return ParseAllocatorEvent(kind, rest);
      default:
        return Error("unknown record '" + whole +
                     "'; expected one of ! = o m a f c S X M U O # t d w r");
    }
  }

  Status ParseHeader(std::string_view line) {
    int version = 0;
    if (!line.starts_with(kHeader) || !ParseNumber(line.substr(kHeader.size()), &version)) {
      return Error("expected '! memmodel-trace VERSION'");
    }
    if (version > Trace::kFormatVersion || version < 1) {
      return Error("trace format version " + std::to_string(version) +
                   ", this program reads versions up to " + std::to_string(Trace::kFormatVersion));
    }
    return {};
  }

  Status ParseAllocatorEvent(char kind, std::string_view rest) {
    Event event;
    event.kind = static_cast<EventKind>(kind);
    const bool ok = ParseNumber(TakeField(&rest), &event.address, 16) &&
                    ParseNumber(TakeField(&rest), &event.size) && event.size >= 0 &&
                    ParseNumber(TakeField(&rest), &event.stream) && event.stream >= 0;
    if (!ok) return Error("expected 'KIND ADDR(hex) BYTES STREAM [OP MODULE]'");
    if (!rest.empty()) {
      if (Status status = ParseIds(&rest, &event.op, &event.module); !status.ok()) return status;
      if (!rest.empty()) return Error("expected OP and MODULE ids after STREAM");
    }
    trace_.events.push_back(event);
    return {};
  }

  Status ParseIds(std::string_view* rest, OperatorId* op_id, ModuleId* module_id) {
    std::int32_t op = -1;
    std::int32_t module = -1;
    if (!ParseNumber(TakeField(rest), &op) || !ParseNumber(TakeField(rest), &module)) {
      return Error("expected OP and MODULE ids");
    }
    if (op < -1 || op >= static_cast<std::int32_t>(trace_.operators.size()) || module < -1 ||
        module >= static_cast<std::int32_t>(trace_.modules.size())) {
      return Error("an operator or module id that no line before defines");
    }
    *op_id = static_cast<OperatorId>(op);
    *module_id = static_cast<ModuleId>(module);
    return {};
  }

  Status ParseConvolution(std::string_view rest) {
    ConvolutionCall call;
    call.position = trace_.events.size();
    if (!ParseNumber(TakeField(&rest), &call.workspace, 16)) {
      return Error("expected 'w ADDR(hex) OP MODULE KEY'");
    }
    if (Status status = ParseIds(&rest, &call.op, &call.module); !status.ok()) return status;
    call.key = rest;
    trace_.convolutions.push_back(std::move(call));
    return {};
  }

  Status ParseTag(std::string_view rest) {
    Event event;
    event.kind = EventKind::kTag;
    const std::string_view role = TakeField(&rest);
    for (int r = 0; r <= static_cast<int>(TensorRole::kLibraryWorkspace); ++r) {
      if (RoleName(static_cast<TensorRole>(r)) == role) event.role = static_cast<TensorRole>(r);
    }
    if (event.role == TensorRole::kNone) return Error("unknown role '" + std::string(role) + "'");
    if (!ParseNumber(TakeField(&rest), &event.address, 16) ||
        !ParseNumber(TakeField(&rest), &event.size) || event.size < 0) {
      return Error("expected 't ROLE ADDR(hex) BYTES NAME'");
    }
    event.text = trace_.AddText(rest);
    trace_.events.push_back(event);
    return {};
  }

  Status ParseCall(std::string_view rest) {
    OperatorCall call;
    call.position = trace_.events.size();
    if (!ParseNumber(TakeField(&rest), &call.events) || call.events > call.position) {
      return Error("expected 'r EVENTS OP MODULE KEY'");
    }
    if (Status status = ParseIds(&rest, &call.op, &call.module); !status.ok()) return status;
    call.key = rest;
    trace_.operator_calls.push_back(std::move(call));
    return {};
  }

  std::string name_;
  std::size_t line_number_ = 0;
  Trace trace_;
};

}  // namespace

Result<Trace> ParseTrace(std::string_view text, const std::string& name) {
  return Parser(name).Run(text);
}

Result<Trace> ReadTrace(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return Status::BadInput("cannot read " + path + ": " + std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return Status::BadInput(path + " is a directory, expected a trace");
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return Status::BadInput("cannot read " + path + ": " + std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> buffer{};
  int count = 0;
  while ((count = gzread(file.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kLargestFile) {
      return Status::BadInput(path + " unpacks to more than 2 GiB, which no trace needs");
    }
  }
  int code = Z_OK;
  const char* message = gzerror(file.get(), &code);
  if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    return Status::BadInput("cannot read " + path + ": " +
                            (code == Z_BUF_ERROR ? "the gzip data ends early" : message));
  }
  return ParseTrace(text, path);
}

}  // namespace memmodel
