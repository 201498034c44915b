// The requests of a job at any batch: one list of events, each with a rule for
// its size and the traced batches that have it.
#ifndef MEMMODEL_SRC_MODEL_PROGRAM_H_
#define MEMMODEL_SRC_MODEL_PROGRAM_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memmodel/trace.h"
#include "src/model/size_rule.h"

namespace memmodel {

// Bit s: the request is made at Program::batches[s].
using SampleMask = std::uint64_t;
inline constexpr std::size_t kMostSamples = 64;

struct ProgramEvent {
  EventKind kind = EventKind::kMarker;  // kMarker, kContext, kAlloc, kFree, kFreeCompleted
  bool completes = true;                // kFree: no kFreeCompleted of its own follows
  TensorRole role = TensorRole::kNone;  // kAlloc: what a tag said the block holds
  std::int32_t stream = 0;
  // kAlloc: index into rules; kFree, kFreeCompleted: index of the allocating
  // event; kMarker: index into texts ("step b=" without its number); kContext: the
  // occasion's number.
  std::int32_t target = 0;
  std::int32_t op = -1;      // index into operators
  std::int32_t module = -1;  // index into modules
  SampleMask mask = 0;
};

// A release, whose target is an event.
[[nodiscard]] inline bool IsRelease(const ProgramEvent& event) {
  return event.kind == EventKind::kFree || event.kind == EventKind::kFreeCompleted;
}

struct Program {
  std::vector<std::int64_t> batches;  // traced, ascending
  std::vector<std::string> operators;
  std::vector<ModuleInfo> modules;
  std::vector<std::string> texts;
  std::vector<SizeRule> rules;
  std::vector<ProgramEvent> events;

  // The traced batches next to `batch`: {s, s} at a traced one, {s, s + 1}
  // between two, the outermost twice outside.
  struct Neighbours {
    std::size_t low, high;
    bool inside;  // not below the first or above the last
  };
  [[nodiscard]] Neighbours NeighboursOf(std::int64_t batch) const;
  // Of the two, the one that is nearer as a ratio: 11 is nearer to 16 than to 4. Batch 1
  // stands for itself alone: a dimension of size 1 is contiguous in any order and is
  // summed over by doing nothing, which no other size is.
  [[nodiscard]] std::size_t Nearest(std::int64_t batch) const;
  // True if two traced batches make the same requests.
  [[nodiscard]] bool SameRequests(std::size_t s, std::size_t t) const;
  // The program as the other traced batches alone would have made it; at least
  // three are traced. Requests that no other batch makes stay, with an empty mask.
  [[nodiscard]] Program Without(std::size_t s) const;
};

// Merges traces of one job, each at one batch, into a program. Traces are
// sorted by batch; of two at one batch the first is taken. `answers`: to keys of
// KeysOfProgram.
Result<Program> BuildProgram(std::span<const Trace> traces, const WorkspaceAnswers& answers = {});

// The keys of all calls at batches 1..last, each once.
Result<std::vector<std::string>> KeysOfProgram(std::span<const Trace> traces, std::int64_t last);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_MODEL_PROGRAM_H_
