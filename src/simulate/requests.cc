// From a trace's addresses to dense slots, so that a replay needs no look-up.
#include <unordered_map>

#include "memmodel/allocator_replay.h"

namespace memmodel {

Result<RequestStream> CompileRequests(const Trace& trace) {
  RequestStream stream;
  std::unordered_map<std::uint64_t, std::uint32_t> live;
  std::vector<std::uint32_t> unused;
  stream.requests.reserve(trace.events.size());
  stream.events.reserve(trace.events.size());
  const std::vector<Event>& events = trace.events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    Request request;
    request.size = event.size;
    if (event.stream > 32767) {
      return Status::BadInput("event " + std::to_string(i) + " is on stream " +
                              std::to_string(event.stream) + "; at most 32768 streams are simulated");
    }
    request.stream = static_cast<std::int16_t>(event.stream);
    switch (event.kind) {
      case EventKind::kAlloc: {
        if (event.size == 0) continue;  // torch answers with no block
        if (unused.empty()) {
          request.slot = stream.slots++;
        } else {
          request.slot = unused.back();
          unused.pop_back();
        }
        if (!live.emplace(event.address, request.slot).second) {
          return Status::BadInput("event " + std::to_string(i) +
                                  " hands out an address that is still in use");
        }
        request.kind = Request::Kind::kAlloc;
        break;
      }
      case EventKind::kFree: {
        const auto it = live.find(event.address);
        if (it == live.end()) {
          ++stream.unmatched_frees;
          continue;
        }
        request.slot = it->second;
        const bool done = i + 1 == events.size() ||
                          (events[i + 1].kind == EventKind::kFreeCompleted &&
                           events[i + 1].address == event.address);
        request.kind = done ? Request::Kind::kFree : Request::Kind::kFreeDeferred;
        if (done) {
          unused.push_back(request.slot);
          live.erase(it);
        }
        break;
      }
      case EventKind::kFreeCompleted: {
        const auto it = live.find(event.address);
        if (it == live.end()) continue;  // done with its kFree
        request.slot = it->second;
        request.kind = Request::Kind::kFreeCompleted;
        unused.push_back(request.slot);
        live.erase(it);
        break;
      }
      case EventKind::kOutOfMemory:
        request.kind = Request::Kind::kFailed;
        break;
      case EventKind::kMarker:
        if (trace.Text(event.text) != marker::kEmptyCache) continue;
        request.kind = Request::Kind::kEmptyCache;
        break;
      case EventKind::kContext:
        request.kind = Request::Kind::kContext;
        request.occasion = event.occasion;
        break;
      case EventKind::kSegmentAlloc:
      case EventKind::kSegmentFree:
      case EventKind::kSegmentMap:
      case EventKind::kSegmentUnmap:
      case EventKind::kTag:
        continue;
    }
    stream.requests.push_back(request);
    stream.events.push_back(static_cast<std::uint32_t>(i));
  }
  return stream;
}

}  // namespace memmodel
