#include "src/model/simulate_requests.h"

#include "memmodel/allocator.h"

namespace memmodel {

SimulatedPeaks SimulateRequests(const Program& program, std::size_t sample,
                                std::span<const Bytes> sizes, const AllocatorSettings& settings) {
  DeviceMemory device;
  Allocator::Options options;
  options.settings = settings;
  Allocator allocator(options, &device);
  std::vector<BlockId> blocks(program.events.size(), BlockId::kNone);
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const ProgramEvent& event = program.events[i];
    if (((event.mask >> sample) & 1) == 0) continue;
    const auto target = static_cast<std::size_t>(event.target);
    switch (event.kind) {
      case EventKind::kAlloc:
        // torch asks the allocator for nothing where a convolution has no workspace.
        if (sizes[target] > 0) blocks[i] = allocator.Malloc(sizes[target], event.stream);
        break;
      case EventKind::kFree:
        if (blocks[target] == BlockId::kNone) break;
        // Which other streams used the block is not traced; any one delays it.
        if (!event.completes) allocator.RecordStream(blocks[target], event.stream + 1);
        allocator.Free(blocks[target]);
        break;
      case EventKind::kFreeCompleted:
        if (blocks[target] != BlockId::kNone) allocator.CompleteFree(blocks[target]);
        break;
      case EventKind::kMarker:
        if (program.texts[target] == marker::kEmptyCache) allocator.EmptyCache();
        break;
      case EventKind::kContext:
        device.Happened(static_cast<ContextOccasion>(event.target));
        break;
      default:
        break;
    }
  }
  const AllocatorStatistics statistics = allocator.Statistics();
  return {statistics.allocated_bytes.all.peak, statistics.reserved_bytes.all.peak};
}

}  // namespace memmodel
