#include "memmodel/allocator_replay.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "src/simulate/allocator_core.h"
#include "src/simulate/recorded_segments.h"

namespace memmodel {
namespace {

// Passes the allocator's segment traffic on and writes it down.
class TracingSegments : public SegmentSource {
 public:
  TracingSegments(SegmentSource* source, std::vector<Event>* events)
      : source_(source), events_(events) {}

  std::optional<std::uint64_t> Malloc(Bytes size, int stream) override {
    const auto address = source_->Malloc(size, stream);
    if (address) Write(EventKind::kSegmentAlloc, *address, size);
    return address;
  }
  void Free(std::uint64_t address, Bytes size) override {
    Write(EventKind::kSegmentFree, address, size);
    source_->Free(address, size);
  }
  std::uint64_t Reserve(Bytes size, Bytes page, int stream) override {
    return source_->Reserve(size, page, stream);
  }
  bool Map(std::uint64_t address, Bytes size) override {
    const bool mapped = source_->Map(address, size);
    if (mapped) Write(EventKind::kSegmentMap, address, size);
    return mapped;
  }
  void Unmap(std::uint64_t address, Bytes size) override {
    Write(EventKind::kSegmentUnmap, address, size);
    source_->Unmap(address, size);
  }
  void Release(std::uint64_t address, Bytes size) override { source_->Release(address, size); }
  [[nodiscard]] Bytes free_bytes() const override { return source_->free_bytes(); }

  void Write(EventKind kind, std::uint64_t address, Bytes size) {
    Event event;
    event.kind = kind;
    event.address = address;
    event.size = size;
    event.stream = stream_;
    events_->push_back(event);
  }
  void set_stream(int stream) { stream_ = stream; }

 private:
  SegmentSource* source_;
  std::vector<Event>* events_;
  int stream_ = 0;
};

// Blocks that were freed while another stream used them. Once the allocator has
// waited for all streams itself, the recorded end of such a use means nothing.
class DeferredFrees {
 public:
  explicit DeferredFrees(AllocatorCore* core) : core_(core) {}
  void Free(std::uint32_t slot, BlockIndex block, int stream) {
    waits_[slot] = core_->synchronizations();
    core_->RecordStream(block, stream + 1);
    core_->Free(block);
  }
  [[nodiscard]] bool Pending(std::uint32_t slot) const {
    const auto it = waits_.find(slot);
    return it != waits_.end() && it->second == core_->synchronizations();
  }

 private:
  AllocatorCore* core_;
  std::unordered_map<std::uint32_t, std::int64_t> waits_;
};

std::string AddressDifference(std::size_t event, std::uint64_t simulated, std::uint64_t recorded,
                              Bytes size) {
  char text[128];
  std::snprintf(text, sizeof text, "event %zu: %lld bytes at %llx, recorded at %llx", event,
                static_cast<long long>(size), static_cast<unsigned long long>(simulated),
                static_cast<unsigned long long>(recorded));
  return text;
}

}  // namespace

Result<ReplayResult> Replay(const Trace& trace, const ReplayOptions& options,
                            std::vector<Event>* simulated) {
  std::string reason;
  if (!options.allocator.settings.IsValid(&reason)) return Status::InvalidArgument(reason);
  Result<RequestStream> compiled = CompileRequests(trace);
  if (!compiled.ok()) return compiled.status();
  const RequestStream& stream = *compiled;

  const bool recorded = options.segment_addresses == SegmentAddresses::kRecorded;
  DeviceMemory own(recorded ? AllocatorSettings::kNoLimit : options.capacity);
  RecordedSegments from_trace(trace, &own, options.capacity);
  std::vector<Event> events;
  TracingSegments source(recorded ? static_cast<SegmentSource*>(&from_trace) : &own, &events);
  AllocatorCore core(options.allocator, &source);
  DeferredFrees deferred(&core);

  ReplayResult result;
  result.requests =
      std::count_if(stream.requests.begin(), stream.requests.end(),
                    [](const Request& r) { return r.kind != Request::Kind::kContext; });
  result.unmatched_frees = stream.unmatched_frees;
  std::vector<BlockIndex> slots(stream.slots, kNoBlock);
  for (std::size_t i = 0; i < stream.requests.size(); ++i) {
    const Request& request = stream.requests[i];
    const Event& event = trace.events[stream.events[i]];
    source.set_stream(request.stream);
    switch (request.kind) {
      case Request::Kind::kAlloc: {
        const BlockIndex block = core.Malloc(request.size, request.stream);
        slots[request.slot] = block;
        if (block == kNoBlock) {
          source.Write(EventKind::kOutOfMemory,
                       static_cast<std::uint64_t>(source.free_bytes()), request.size);
          if (!result.first_failure) result.first_failure = stream.events[i];
          break;
        }
        const std::uint64_t address = core.At(block).address;
        source.Write(EventKind::kAlloc, address, request.size);
        if (recorded && address != event.address) {
          ++result.differing_addresses;
          if (result.first_difference.empty()) {
            result.first_difference = from_trace.Difference(false);
          }
          if (result.first_difference.empty()) {
            result.first_difference =
                AddressDifference(stream.events[i], address, event.address, request.size);
          }
        }
        break;
      }
      case Request::Kind::kFree:
      case Request::Kind::kFreeDeferred: {
        const BlockIndex block = slots[request.slot];
        if (block == kNoBlock) break;
        const std::uint64_t address = core.At(block).address;
        const Bytes size = core.At(block).requested_size;
        source.Write(EventKind::kFree, address, size);
        if (request.kind == Request::Kind::kFree) {
          source.Write(EventKind::kFreeCompleted, address, size);
          core.Free(block);
        } else {
          deferred.Free(request.slot, block, request.stream);
        }
        break;
      }
      case Request::Kind::kFreeCompleted: {
        const BlockIndex block = slots[request.slot];
        if (block == kNoBlock || !deferred.Pending(request.slot)) break;
        source.Write(EventKind::kFreeCompleted, core.At(block).address,
                     core.At(block).requested_size);
        core.CompleteFree(block);
        break;
      }
      case Request::Kind::kFailed: {
        const BlockIndex block = core.Malloc(request.size, request.stream);
        if (block == kNoBlock) {
          source.Write(EventKind::kOutOfMemory,
                       static_cast<std::uint64_t>(source.free_bytes()), request.size);
          break;
        }
        // It fits now; what the program would have done with it is not recorded.
        core.Free(block);
        if (recorded && result.first_difference.empty()) {
          result.first_difference = "event " + std::to_string(stream.events[i]) + ": " +
                                    std::to_string(request.size) +
                                    " bytes were found, recorded as out of memory";
        }
        break;
      }
      case Request::Kind::kEmptyCache:
        core.EmptyCache();
        break;
      case Request::Kind::kContext:
        own.Happened(request.occasion);
        break;
    }
  }
  if (recorded && result.first_difference.empty()) {
    result.first_difference = from_trace.Difference(true);
  }
  result.statistics = core.Statistics();
  result.segments = core.Snapshot();
  if (simulated != nullptr) *simulated = std::move(events);
  return result;
}

ReplayPeaks ReplayRequests(const RequestStream& stream, const ReplayOptions& options) {
  DeviceMemory own(options.capacity);
  AllocatorCore core(options.allocator, &own);
  DeferredFrees deferred(&core);
  std::vector<BlockIndex> slots(stream.slots + 1, kNoBlock);
  for (const Request& request : stream.requests) {
    BlockIndex& slot = slots[request.slot];
    switch (request.kind) {
      case Request::Kind::kAlloc:
        slot = core.Malloc(request.size, request.stream);
        break;
      case Request::Kind::kFree:
        if (slot != kNoBlock) core.Free(slot);
        break;
      case Request::Kind::kFreeDeferred:
        if (slot != kNoBlock) deferred.Free(request.slot, slot, request.stream);
        break;
      case Request::Kind::kFreeCompleted:
        if (slot != kNoBlock && deferred.Pending(request.slot)) core.CompleteFree(slot);
        break;
      case Request::Kind::kFailed: {
        const BlockIndex block = core.Malloc(request.size, request.stream);
        if (block != kNoBlock) core.Free(block);
        break;
      }
      case Request::Kind::kEmptyCache:
        core.EmptyCache();
        break;
      case Request::Kind::kContext:
        own.Happened(request.occasion);
        break;
    }
  }
  const AllocatorStatistics stats = core.Statistics();
  ReplayPeaks peaks;
  peaks.allocated = stats.allocated_bytes.all.peak;
  peaks.reserved = stats.reserved_bytes.all.peak;
  peaks.active = stats.active_bytes.all.peak;
  peaks.requested = stats.requested_bytes.all.peak;
  peaks.retries = stats.num_alloc_retries;
  peaks.ooms = stats.num_ooms;
  return peaks;
}

}  // namespace memmodel
