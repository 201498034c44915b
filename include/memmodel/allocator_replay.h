// Request streams through the allocator: what would these requests have taken
// under these settings, and does the simulator give the answers that were
// recorded?
#ifndef MEMMODEL_ALLOCATOR_REPLAY_H_
#define MEMMODEL_ALLOCATOR_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memmodel/allocator.h"
#include "memmodel/status.h"
#include "memmodel/trace.h"

namespace memmodel {

struct Request {
  enum class Kind : std::uint8_t {
    kAlloc,
    kFree,           // released and done at once
    kFreeDeferred,   // released while another stream still used it
    kFreeCompleted,  // ... which has now ended
    kFailed,         // ran out of memory when it was recorded
    kEmptyCache,
    kContext,  // the driver took addresses, on `occasion`
  };
  Bytes size = 0;          // kAlloc, kFailed: as asked
  std::uint32_t slot = 0;  // which live block: kAlloc fills it, the frees empty it
  std::int16_t stream = 0;
  Kind kind = Kind::kAlloc;
  ContextOccasion occasion = ContextOccasion::kFirstKernel;
};

// A trace's requests with addresses replaced by dense slot numbers. The sizes
// may be changed at will: this is how a stream is replayed at another batch.
struct RequestStream {
  std::vector<Request> requests;
  std::vector<std::uint32_t> events;  // requests[i] is events[i] of the trace
  std::uint32_t slots = 0;
  std::int64_t unmatched_frees = 0;   // of blocks whose allocation is not in the trace
};

// Markers other than empty_cache, tags and segment events are left out. Fails if
// an address is handed out twice, and on more than 32767 streams.
Result<RequestStream> CompileRequests(const Trace& trace);

enum class SegmentAddresses {
  kOwn,       // DeviceMemory's rule, told of the trace's occasions
  kRecorded,  // the trace's, as long as the simulator asks for the same segments
};

struct ReplayOptions {
  Allocator::Options allocator;
  SegmentAddresses segment_addresses = SegmentAddresses::kOwn;
  // Bytes that segments may take. Default: the device's memory is not the limit.
  Bytes capacity = AllocatorSettings::kNoLimit;
};

struct ReplayResult {
  AllocatorStatistics statistics;
  std::vector<SegmentInfo> segments;  // at the end
  std::int64_t requests = 0;
  std::int64_t unmatched_frees = 0;
  // Index in trace.events of the first request that failed though it had not
  // when it was recorded. The replay goes on without that block; the program
  // would most likely have ended.
  std::optional<std::size_t> first_failure;
  // What was first answered otherwise than recorded (an address, a segment), as
  // one line; empty if nothing was. Only with recorded segment addresses.
  std::string first_difference;
  std::int64_t differing_addresses = 0;
};

// `simulated`, if given, receives what the allocator did, as a trace's events.
Result<ReplayResult> Replay(const Trace& trace, const ReplayOptions& options,
                            std::vector<Event>* simulated = nullptr);

struct ReplayPeaks {
  Bytes allocated = 0;
  Bytes reserved = 0;
  Bytes active = 0;
  Bytes requested = 0;
  std::int64_t retries = 0;
  std::int64_t ooms = 0;
};

// The peaks alone, as fast as it can be had: about 30 ns a request. No OOM ends
// the replay; `ooms` counts them.
ReplayPeaks ReplayRequests(const RequestStream& stream, const ReplayOptions& options);

// Writes what was simulated as a snapshot pickle, the format of
// torch.cuda.memory._dump_snapshot, which pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py read. Stream numbers stand for stream addresses.
Status WriteSnapshot(const ReplayResult& result, const std::vector<Event>& simulated,
                     const std::string& alloc_conf, const std::string& path);

// The result as JSON: peak, allocator, statistics; see docs/allocator.md.
std::string ReplayToJson(const ReplayResult& result);

}  // namespace memmodel

#endif  // MEMMODEL_ALLOCATOR_REPLAY_H_
