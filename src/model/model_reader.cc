// Reads the format of docs/memory_model.md. Whatever a file may hold, what is
// returned is consistent: ids are in range, and at every traced batch a block is
// released at most once and only after it was requested.
#include <algorithm>
#include <charconv>

#include "src/core/atomic_file.h"
#include "src/core/gzip.h"
#include "src/model/model_impl.h"

namespace memmodel {
namespace {

constexpr std::size_t kLargestFile = std::size_t{16} << 20;   // packed; a model has below 1 MB
constexpr std::size_t kLargestText = std::size_t{256} << 20;  // unpacked
constexpr std::size_t kMostEvents = std::size_t{1} << 22;
constexpr std::string_view kHeader = "memmodel-model ";

std::string_view TakeField(std::string_view* line) {
  const std::size_t end = std::min(line->find(' '), line->size());
  const std::string_view field = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return field;
}

template <typename T>
bool TakeNumber(std::string_view* line, T* value, int base = 10) {
  const std::string_view text = TakeField(line);
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return r.ec == std::errc() && r.ptr == text.data() + text.size() && !text.empty();
}

bool TakeOccasion(std::string_view* line, std::int32_t* value) {
  const std::optional<ContextOccasion> occasion = ParseOccasion(TakeField(line));
  if (occasion) *value = static_cast<std::int32_t>(*occasion);
  return occasion.has_value();
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Status Run(std::string_view text) {
    bool ended = false;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) break;
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      ++line_;
      if (ended || line.size() < 2 || line[1] != ' ') return Error("unexpected line");
      const char kind = line[0];
      line.remove_prefix(2);
      if (line_ == 1 && kind != '!') return NotAModel();
      if (kind == '.') {
        std::int64_t lines = 0;
        if (!TakeNumber(&line, &lines) || lines != line_ - 1)
          return Error("the line count is wrong");
        ended = true;
        continue;
      }
      if (Status status = Record(kind, line); !status.ok()) return status;
    }
    if (line_ == 0) return NotAModel();
    if (!ended) return Status::BadInput(name_ + " ends early: its last line is missing");
    if (program.batches.size() < 2) return Error("a model has at least two traced batches");
    if (program.events.empty()) return Error("a model has events");
    return {};
  }

  Program program;
  std::string metadata, alloc_conf;
  std::optional<Bytes> context_bytes;
  HeldOutErrors held_out;
  std::vector<ModelPoint> curve;

 private:
  [[nodiscard]] Status Error(const std::string& what) const {
    return Status::BadInput(name_ + ":" + std::to_string(line_) + ": " + what);
  }
  [[nodiscard]] Status NotAModel() const {
    return Status::BadInput(name_ + " is not a memory model; 'memmodel fit' writes one");
  }

  Status Record(char kind, std::string_view rest) {
    switch (kind) {
      case '!':
        return Header(rest);
      case '=':
        metadata = rest;
        return {};
      case 'A':
        alloc_conf = rest;
        return {};
      case 'C': {
        Bytes bytes = 0;
        if (!TakeNumber(&rest, &bytes) || bytes < 0) return Error("expected 'C BYTES'");
        context_bytes = bytes;
        return {};
      }
      case 'b':
        return Batches(rest);
      case 'o':
        program.operators.emplace_back(rest);
        return {};
      case 'm': {
        const std::string type(TakeField(&rest));
        program.modules.push_back({std::string(rest), type == "?" ? "" : type});
        return {};
      }
      case 'x':
        program.texts.emplace_back(rest);
        return {};
      case 's':
        return Rule(rest);
      case 'a':
      case 'f':
      case 'p':
      case 'c':
      case '#':
      case 'd':
        return EventRecord(kind, rest);
      case 'h': {
        std::int64_t allocated = 0, reserved = 0;
        if (!TakeNumber(&rest, &allocated) || !TakeNumber(&rest, &reserved) || allocated < 0 ||
            reserved < 0 || !rest.empty()) {
          return Error("expected 'h ALLOCATED RESERVED'");
        }
        held_out = {static_cast<double>(allocated) * 1e-9, static_cast<double>(reserved) * 1e-9};
        return {};
      }
      case 'k':
        return Point(rest);
      default:
        return Error(std::string("unknown record '") + kind + "'");
    }
  }

  Status Header(std::string_view rest) {
    int version = 0;
    if (line_ != 1 || !rest.starts_with(kHeader)) return NotAModel();
    rest.remove_prefix(kHeader.size());
    if (!TakeNumber(&rest, &version) || version < 1) return NotAModel();
    if (version > MemoryModel::kFormatVersion) {
      return Status::BadInput(name_ + " has model format version " + std::to_string(version) +
                              ", this program reads versions up to " +
                              std::to_string(MemoryModel::kFormatVersion));
    }
    return {};
  }

  Status Batches(std::string_view rest) {
    if (!program.batches.empty()) return Error("a second list of batches");
    while (!rest.empty()) {
      std::int64_t batch = 0;
      const std::int64_t last = program.batches.empty() ? 0 : program.batches.back();
      if (!TakeNumber(&rest, &batch) || batch <= last || batch > MemoryModel::kLargestBatch ||
          program.batches.size() == kMostSamples) {
        return Error("expected up to 64 ascending batches");
      }
      program.batches.push_back(batch);
    }
    all_ = program.batches.empty() ? 0 : (SampleMask{2} << (program.batches.size() - 1)) - 1;
    return {};
  }

  Status Rule(std::string_view rest) {
    SizeRule rule;
    const std::string_view kind = TakeField(&rest);
    if (kind.size() != 1) return Error("expected a size rule");
    rule.kind = static_cast<SizeRule::Kind>(kind[0]);
    const auto coefficient = [&](Bytes* c) {
      return TakeNumber(&rest, c) && *c >= -SizeRule::kLargest && *c <= SizeRule::kLargest;
    };
    bool ok = true;
    SizeRule planned;
    switch (rule.kind) {
      case SizeRule::Kind::kConstant:
        ok = coefficient(&rule.c0);
        break;
      case SizeRule::Kind::kAffine:
        ok = coefficient(&rule.c0) && coefficient(&rule.c1);
        break;
      case SizeRule::Kind::kQuadratic:
        ok = coefficient(&rule.c0) && coefficient(&rule.c1) && coefficient(&rule.c2);
        break;
      case SizeRule::Kind::kPlanned:
        ok = Pieces(&rest, &planned);
        [[fallthrough]];
      case SizeRule::Kind::kTable:
        while (ok && !rest.empty()) {
          BatchBytes p;
          const std::int64_t last = rule.points.empty() ? 0 : rule.points.back().batch;
          ok = TakeNumber(&rest, &p.batch) && coefficient(&p.bytes) && p.batch > last &&
               p.batch <= MemoryModel::kLargestBatch && p.bytes >= 0 &&
               p.bytes <= SizeRule::kLargest && rule.points.size() < kMostSamples;
          rule.points.push_back(p);
        }
        ok = ok && !rule.points.empty();
        if (ok) rule = TableOf(rule.points);
        if (ok && planned.last > 0) {
          rule.kind = SizeRule::Kind::kPlanned;
          rule.last = planned.last;
          rule.pieces = std::move(planned.pieces);
        }
        break;
      default:
        ok = false;
    }
    if (!ok || !rest.empty()) return Error("not a size rule this program knows");
    program.rules.push_back(std::move(rule));
    return {};
  }

  // LAST PIECES, then FIRST BYTES SLOPE of each piece.
  static bool Pieces(std::string_view* rest, SizeRule* rule) {
    std::int64_t count = 0;
    if (!TakeNumber(rest, &rule->last) || rule->last < 1 ||
        rule->last > MemoryModel::kLargestBatch || !TakeNumber(rest, &count) || count < 1) {
      return false;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      SizeRule::Piece p;
      const std::int64_t least = rule->pieces.empty() ? 1 : rule->pieces.back().first + 1;
      if (!TakeNumber(rest, &p.first) || !TakeNumber(rest, &p.bytes) ||
          !TakeNumber(rest, &p.slope) || p.first < least || p.first > rule->last || p.bytes < 0 ||
          p.bytes > SizeRule::kLargest || p.slope < -SizeRule::kLargest ||
          p.slope > SizeRule::kLargest) {
        return false;
      }
      if (i == 0 && p.first != 1) return false;
      rule->pieces.push_back(p);
    }
    return true;
  }

  Status EventRecord(char kind, std::string_view rest) {
    ProgramEvent event;
    event.kind = kind == 'p' ? EventKind::kFree : static_cast<EventKind>(kind);
    event.completes = kind != 'p';
    event.mask = all_;
    std::string_view role = RoleName(TensorRole::kNone);
    bool ok = kind == 'd' ? TakeOccasion(&rest, &event.target) : TakeNumber(&rest, &event.target);
    if (ok && !rest.empty()) ok = TakeNumber(&rest, &event.op);
    if (ok && !rest.empty()) ok = TakeNumber(&rest, &event.module);
    if (ok && !rest.empty()) ok = TakeNumber(&rest, &event.mask, 16);
    if (ok && !rest.empty()) ok = TakeNumber(&rest, &event.stream);
    if (ok && !rest.empty()) role = TakeField(&rest);
    for (int r = 0; r <= static_cast<int>(TensorRole::kLibraryWorkspace); ++r) {
      if (RoleName(static_cast<TensorRole>(r)) == role) event.role = static_cast<TensorRole>(r);
    }
    ok = ok && rest.empty() && RoleName(event.role) == role && event.stream >= 0 &&
         event.stream < 1024 && InRange(event.op, program.operators.size()) &&
         InRange(event.module, program.modules.size()) && event.mask != 0 &&
         (event.mask & ~all_) == 0 && program.events.size() < kMostEvents;
    if (!ok) return Error("an event with a field that is missing or out of range");
    if (Status status = Resolve(&event); !status.ok()) return status;
    program.events.push_back(event);
    released_.push_back(0);
    pending_.push_back(0);
    return {};
  }

  static bool InRange(std::int32_t id, std::size_t size) {
    return id >= -1 && id < static_cast<std::int64_t>(size);
  }

  // Checks the target and turns a release's distance into an index.
  Status Resolve(ProgramEvent* event) {
    if (event->kind == EventKind::kContext) return {};
    const auto target = static_cast<std::size_t>(event->target);
    if (event->kind == EventKind::kAlloc || event->kind == EventKind::kMarker) {
      const std::size_t count =
          event->kind == EventKind::kAlloc ? program.rules.size() : program.texts.size();
      if (event->target < 0 || target >= count) return Error("an id that no line before defines");
      return {};
    }
    const auto index = static_cast<std::int64_t>(program.events.size()) - event->target;
    if (event->target < 1 || index < 0) return Error("a release of no block");
    const auto block = static_cast<std::size_t>(index);
    const ProgramEvent& alloc = program.events[block];
    if (alloc.kind != EventKind::kAlloc) return Error("a release of no block");
    if (event->kind == EventKind::kFree) {
      if ((event->mask & ~alloc.mask) != 0 || (event->mask & released_[block]) != 0) {
        return Error("a block released twice, or where it was not requested");
      }
      released_[block] |= event->mask;
      if (!event->completes) pending_[block] |= event->mask;
    } else {
      if ((event->mask & ~pending_[block]) != 0)
        return Error("a release completed before it began");
      pending_[block] &= ~event->mask;
    }
    event->target = static_cast<std::int32_t>(index);
    return {};
  }

  Status Point(std::string_view rest) {
    ModelPoint p;
    bool ok = TakeNumber(&rest, &p.allocated) && TakeNumber(&rest, &p.reserved);
    p.allocated_range = {p.allocated, p.allocated};
    p.reserved_range = {p.reserved, p.reserved};
    if (ok && !rest.empty()) {
      ok = TakeNumber(&rest, &p.allocated_range.low) &&
           TakeNumber(&rest, &p.allocated_range.high) && TakeNumber(&rest, &p.reserved_range.low) &&
           TakeNumber(&rest, &p.reserved_range.high);
    }
    ok = ok && rest.empty() && p.allocated_range.low >= 0 && p.reserved_range.low >= 0 &&
         p.allocated_range.low <= p.allocated && p.allocated <= p.allocated_range.high &&
         p.reserved_range.low <= p.reserved && p.reserved <= p.reserved_range.high &&
         curve.size() < static_cast<std::size_t>(MemoryModel::kLargestBatch);
    if (!ok) return Error("expected 'k ALLOCATED RESERVED [LOW HIGH LOW HIGH]'");
    curve.push_back(p);
    return {};
  }

  std::string name_;
  std::int64_t line_ = 0;
  SampleMask all_ = 0;
  std::vector<SampleMask> released_, pending_;  // one an event
};

}  // namespace

Result<MemoryModel> MemoryModel::Parse(std::string_view data, const std::string& name) {
  const Result<std::string> text = GzipExpand(data, kLargestText, name);
  if (!text.ok()) return text.status();
  Reader reader(name);
  if (Status status = reader.Run(*text); !status.ok()) return status;
  const Result<AllocatorSettings> settings = ParseAllocatorSettings(reader.alloc_conf);
  if (!settings.ok()) return Status::BadInput(name + ": " + settings.status().message());
  auto impl = std::make_unique<Impl>(std::move(reader.program), *settings);
  impl->metadata = std::move(reader.metadata);
  impl->alloc_conf = std::move(reader.alloc_conf);
  impl->context_bytes = reader.context_bytes;
  impl->held_out = reader.held_out;
  impl->curve = std::move(reader.curve);
  return MemoryModel(std::move(impl));
}

Result<MemoryModel> MemoryModel::Read(const std::string& path) {
  const Result<std::string> data = ReadFile(path, kLargestFile);
  if (!data.ok()) return data.status();
  return Parse(*data, path);
}

}  // namespace memmodel
