// Snapshots as torch.cuda.memory._dump_snapshot writes them: a pickle of
//
//   {"segments": [{"device", "address", "total_size", ..., "blocks": [...]}],
//    "device_traces": [[{"action", "addr", "size", "stream", ...}]],
//    "allocator_settings": {...}, "external_annotations": []}
//
// (torch/csrc/cuda/Module.cpp, THCPModule_memorySnapshot, torch 2.11). Of the
// pickle format, protocol 2, only what this needs: dictionaries, lists, strings,
// integers, booleans. The opcodes are those that Python's pickletools lists.
#include <array>
#include <string>
#include <string_view>

#include "memmodel/allocator_replay.h"
#include "src/core/atomic_file.h"

namespace memmodel {
namespace {

class Pickle {
 public:
  Pickle() { out_ = "\x80\x02"; }

  void BeginDict() { out_ += "}("; }
  void EndDict() { out_ += 'u'; }
  // Long lists go in batches, as Python writes them; readers in browsers pass a
  // batch as one call's arguments.
  void BeginList() {
    out_ += "](";
    in_batch_.push_back(0);
  }
  void NextItem() {
    if (++in_batch_.back() % 1000 == 0) out_ += "e(";
  }
  void EndList() {
    out_ += 'e';
    in_batch_.pop_back();
  }
  void EmptyList() { out_ += ']'; }
  void String(std::string_view text) {
    out_ += 'X';
    Raw(text.size(), 4);
    out_ += text;
  }
  void Boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
  void Integer(std::int64_t value) {
    if (value >= -(std::int64_t{1} << 31) && value < std::int64_t{1} << 31) {
      out_ += 'J';
      Raw(static_cast<std::uint64_t>(value), 4);
    } else {
      out_ += "\x8a\x08";
      Raw(static_cast<std::uint64_t>(value), 8);
    }
  }
  void Pair(std::int64_t a, std::int64_t b) {
    Integer(a);
    Integer(b);
    out_ += '\x86';
  }
  void Field(std::string_view key, std::int64_t value) {
    String(key);
    Integer(value);
  }
  void Field(std::string_view key, std::string_view value) {
    String(key);
    String(value);
  }
  std::string Finish() && { return std::move(out_ += '.'); }

 private:
  void Raw(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string out_;
  std::vector<std::size_t> in_batch_;
};

std::string_view ActionName(EventKind kind) {
  switch (kind) {
    case EventKind::kAlloc: return "alloc";
    case EventKind::kFree: return "free_requested";
    case EventKind::kFreeCompleted: return "free_completed";
    case EventKind::kSegmentAlloc: return "segment_alloc";
    case EventKind::kSegmentFree: return "segment_free";
    case EventKind::kSegmentMap: return "segment_map";
    case EventKind::kSegmentUnmap: return "segment_unmap";
    case EventKind::kOutOfMemory: return "oom";
    default: return "";
  }
}

void WriteSegment(const SegmentInfo& segment, Pickle* p) {
  p->BeginDict();
  p->Field("device", 0);
  p->Field("address", static_cast<std::int64_t>(segment.address));
  p->Field("total_size", segment.total_size);
  p->Field("allocated_size", segment.allocated_size);
  p->Field("active_size", segment.active_size);
  p->Field("requested_size", segment.requested_size);
  p->Field("stream", segment.stream);
  p->Field("segment_type", segment.is_small ? "small" : "large");
  p->String("segment_pool_id");
  p->Pair(0, segment.pool);
  p->String("is_expandable");
  p->Boolean(segment.is_expandable);
  p->String("frames");
  p->EmptyList();
  p->String("blocks");
  p->BeginList();
  for (const BlockInfo& block : segment.blocks) {
    p->BeginDict();
    p->Field("address", static_cast<std::int64_t>(block.address));
    p->Field("size", block.size);
    p->Field("requested_size", block.requested_size);
    p->Field("state", BlockStateName(block.state));
    p->String("frames");
    p->EmptyList();
    p->EndDict();
    p->NextItem();
  }
  p->EndList();
  p->EndDict();
}

}  // namespace

Status WriteSnapshot(const ReplayResult& result, const std::vector<Event>& simulated,
                     const std::string& alloc_conf, const std::string& path) {
  Pickle p;
  p.BeginDict();
  p.String("segments");
  p.BeginList();
  for (const SegmentInfo& segment : result.segments) {
    WriteSegment(segment, &p);
    p.NextItem();
  }
  p.EndList();
  p.String("device_traces");
  p.BeginList();
  p.BeginList();
  std::int64_t time = 0;
  for (const Event& event : simulated) {
    if (ActionName(event.kind).empty()) continue;
    p.BeginDict();
    p.Field("action", ActionName(event.kind));
    // For "oom" the address is the device's free memory, under its own name.
    p.Field(event.kind == EventKind::kOutOfMemory ? "device_free" : "addr",
            static_cast<std::int64_t>(event.address));
    p.Field("size", event.size);
    p.Field("stream", event.stream);
    p.Field("time_us", time++);  // the order; nothing was timed
    p.String("frames");
    p.EmptyList();
    p.EndDict();
    p.NextItem();
  }
  p.EndList();
  p.EndList();
  p.String("allocator_settings");
  p.BeginDict();
  p.Field("PYTORCH_CUDA_ALLOC_CONF", alloc_conf);
  p.EndDict();
  p.String("external_annotations");
  p.EmptyList();
  p.EndDict();
  return WriteFileAtomically(path, std::move(p).Finish());
}

}  // namespace memmodel
