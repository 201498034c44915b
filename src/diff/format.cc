// The report of a comparison for a reader at an 80-column terminal.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "memmodel/diff.h"

namespace memmodel {
namespace {

[[gnu::format(printf, 2, 3)]] void Append(std::string* out, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  out->append(line);
}

std::string Plain(Bytes bytes) { return std::to_string(bytes).append(" bytes"); }

std::string Position(std::int64_t event) {
  return event < 0 ? std::string("nowhere")
                   : std::string("at event ").append(std::to_string(event));
}

std::string What(const Difference& d) {
  switch (d.kind) {
    case DifferenceKind::kSize:
      return "A asks for " + Plain(d.bytes_a) + ", B for " + Plain(d.bytes_b);
    case DifferenceKind::kOnlyA:
      return "A alone asks for " + Plain(d.bytes_a);
    case DifferenceKind::kOnlyB:
      return "B alone asks for " + Plain(d.bytes_b);
    case DifferenceKind::kOrder: {
      const Bytes bytes = d.event_a >= 0 ? d.bytes_a : d.bytes_b;
      return "block of " + Plain(bytes) + ": A's turn is " + Position(d.event_a) + ", B's " +
             Position(d.event_b);
    }
    case DifferenceKind::kMarker:
      return std::string(d.event_a >= 0 ? "A" : "B") + " alone has the marker '" + d.marker + "'";
  }
  return {};
}

void AppendDifference(const Difference& d, const TraceDiff& diff, std::string* out) {
  const std::string& part = diff.parts[static_cast<std::size_t>(d.part)].name;
  Append(out, "  %s, %s", part.c_str(), std::string(PhaseName(d.phase)).c_str());
  if (d.event_a >= 0) Append(out, ", event A %" PRId64, d.event_a);
  if (d.event_b >= 0) Append(out, ", event B %" PRId64, d.event_b);
  out->push_back('\n');
  if (!d.context.operator_name.empty()) {
    out->append(d.context.inferred ? "    after " : "    in ").append(d.context.operator_name);
    if (!d.context.module_path.empty()) out->append(" of ").append(d.context.module_path);
    out->push_back('\n');
  }
  out->append("    ").append(What(d)).push_back('\n');
}

}  // namespace

std::string FormatDiff(const TraceDiff& diff, std::string_view name_a, std::string_view name_b,
                       std::size_t shown) {
  std::string out;
  out.append("A: ").append(name_a).append("\nB: ").append(name_b).append("\n\n");
  Append(&out, "%-16s %9s %9s %9s %7s  %11s %11s\n", "part", "requests", "of B", "equal", "differ",
         "peak A", "peak B");
  for (const DiffPart& part : diff.parts) {
    Append(&out, "%-16s %9" PRId64 " %9" PRId64 " %9" PRId64 " %7" PRId64 "  %11s %11s\n",
           part.name.c_str(), part.requests_a, part.requests_b, part.matched, part.differences,
           FormatBytes(part.peak_a).c_str(), FormatBytes(part.peak_b).c_str());
  }
  if (diff.identical) {
    out.append("\nidentical: every request and release, in size and order\n");
    return out;
  }
  const std::size_t count = std::min(shown, diff.differences.size());
  if (count > 0) {
    Append(&out, "\nthe first %zu of %zu differences\n", count, diff.differences.size());
    for (std::size_t i = 0; i < count; ++i) AppendDifference(diff.differences[i], diff, &out);
  }
  Append(&out, "\n%-24s %-8s %6s %7s %7s %6s  %10s %10s\n", "family", "library", "size", "only A",
         "only B", "order", "bytes A", "bytes B");
  for (const DiffGroup& g : diff.groups) {
    Append(&out, "%-24s %-8s %6" PRId64 " %7" PRId64 " %7" PRId64 " %6" PRId64 "  %10s %10s\n",
           g.family.c_str(), g.library.c_str(), g.size, g.only_a, g.only_b, g.order,
           FormatBytes(g.bytes_a).c_str(), FormatBytes(g.bytes_b).c_str());
  }
  return out;
}

}  // namespace memmodel
