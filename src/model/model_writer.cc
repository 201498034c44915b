// Writes the format of docs/memory_model.md.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "src/core/atomic_file.h"
#include "src/core/gzip.h"
#include "src/model/model_impl.h"

namespace memmodel {
namespace {

class Text {
 public:
  void Line(char kind, std::string_view rest) {
    out_.push_back(kind);
    out_.push_back(' ');
    out_.append(rest);
    End();
  }
  void Begin(char kind) { out_.push_back(kind); }
  void Number(std::int64_t value) {
    out_.push_back(' ');
    out_.append(std::to_string(value));
  }
  void Word(std::string_view word) {
    out_.push_back(' ');
    out_.append(word);
  }
  void End() {
    out_.push_back('\n');
    ++lines_;
  }
  std::string Finish() {
    // The reader knows a truncated file by this line.
    out_.append(". ").append(std::to_string(lines_)).push_back('\n');
    return std::move(out_);
  }

 private:
  std::string out_;
  std::int64_t lines_ = 0;
};

void AppendRule(const SizeRule& rule, Text* text) {
  text->Begin('s');
  const char kind = static_cast<char>(rule.kind);
  text->Word(std::string_view(&kind, 1));
  switch (rule.kind) {
    case SizeRule::Kind::kQuadratic:
      text->Number(rule.c0), text->Number(rule.c1), text->Number(rule.c2);
      break;
    case SizeRule::Kind::kAffine:
      text->Number(rule.c0), text->Number(rule.c1);
      break;
    case SizeRule::Kind::kConstant:
      text->Number(rule.c0);
      break;
    case SizeRule::Kind::kPlanned:
      text->Number(rule.last), text->Number(static_cast<std::int64_t>(rule.pieces.size()));
      for (const SizeRule::Piece& p : rule.pieces) {
        text->Number(p.first), text->Number(p.bytes), text->Number(p.slope);
      }
      [[fallthrough]];
    case SizeRule::Kind::kTable:
      for (const BatchBytes& p : rule.points) text->Number(p.batch), text->Number(p.bytes);
      break;
  }
  text->End();
}

void AppendEvent(const ProgramEvent& event, std::int64_t index, SampleMask all, Text* text) {
  const bool pending = event.kind == EventKind::kFree && !event.completes;
  text->Begin(pending ? 'p' : static_cast<char>(event.kind));
  if (event.kind == EventKind::kContext) {
    text->Word(OccasionName(static_cast<ContextOccasion>(event.target)));
  } else {
    text->Number(IsRelease(event) ? index - event.target : event.target);
  }
  // Trailing fields at their defaults are left out.
  const bool role = event.role != TensorRole::kNone;
  const bool stream = role || event.stream != 0;
  const bool mask = stream || event.mask != all;
  const bool module = mask || event.module != -1;
  const bool op = module || event.op != -1;
  if (op) text->Number(event.op);
  if (module) text->Number(event.module);
  if (mask) {
    char hex[20];
    std::snprintf(hex, sizeof hex, "%" PRIx64, event.mask);
    text->Word(hex);
  }
  if (stream) text->Number(event.stream);
  if (role) text->Word(RoleName(event.role));
  text->End();
}

void AppendPoint(const ModelPoint& point, Text* text) {
  text->Begin('k');
  text->Number(point.allocated), text->Number(point.reserved);
  const bool known = point.allocated_range.low == point.allocated_range.high &&
                     point.reserved_range.low == point.reserved_range.high;
  if (!known) {
    text->Number(point.allocated_range.low), text->Number(point.allocated_range.high);
    text->Number(point.reserved_range.low), text->Number(point.reserved_range.high);
  }
  text->End();
}

}  // namespace

std::string MemoryModel::Format() const {
  const Program& program = impl_->program;
  Text text;
  text.Line('!', "memmodel-model " + std::to_string(kFormatVersion));
  if (!impl_->metadata.empty()) text.Line('=', impl_->metadata);
  if (!impl_->alloc_conf.empty()) text.Line('A', impl_->alloc_conf);
  if (impl_->context_bytes) text.Line('C', std::to_string(*impl_->context_bytes));
  text.Begin('b');
  for (const std::int64_t batch : program.batches) text.Number(batch);
  text.End();
  for (const std::string& op : program.operators) text.Line('o', op);
  for (const ModuleInfo& module : program.modules) {
    text.Line('m', (module.type.empty() ? "?" : module.type) + " " + module.path);
  }
  for (const std::string& marker : program.texts) text.Line('x', marker);
  for (const SizeRule& rule : program.rules) AppendRule(rule, &text);
  const SampleMask all = (SampleMask{2} << (program.batches.size() - 1)) - 1;
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    AppendEvent(program.events[i], static_cast<std::int64_t>(i), all, &text);
  }
  const auto billionth = [](double share) {
    return static_cast<std::int64_t>(std::ceil(std::min(share, 1e6) * 1e9));
  };
  text.Begin('h');
  text.Number(billionth(impl_->held_out.allocated));
  text.Number(billionth(impl_->held_out.reserved));
  text.End();
  for (const ModelPoint& point : impl_->curve) AppendPoint(point, &text);
  return GzipCompress(text.Finish());
}

Status MemoryModel::Write(const std::string& path) const {
  return WriteFileAtomically(path, Format());
}

}  // namespace memmodel
