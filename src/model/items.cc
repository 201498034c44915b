#include "src/model/items.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string>
#include <unordered_map>

#include "src/model/size_rule.h"

namespace memmodel {
namespace {

std::uint64_t Mix(std::uint64_t seed, std::uint64_t value) {
  seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdULL;
}

std::uint64_t HashText(std::string_view text) { return std::hash<std::string_view>{}(text); }

class Collector {
 public:
  Collector(const Trace& trace, bool calls) : trace_(trace), calls_(calls) {
    for (const Event& event : trace.events) {
      has_completions_ = has_completions_ || event.kind == EventKind::kFreeCompleted;
    }
  }

  Result<TraceItems> Run() {
    out_.part_begin.push_back(0);
    auto convolution = trace_.convolutions.begin();
    auto call = trace_.operator_calls.begin();
    for (std::size_t i = 0; i <= trace_.events.size(); ++i) {
      for (; convolution != trace_.convolutions.end() && convolution->position <= i;
           ++convolution) {
        if (calls_) AddConvolution(*convolution);
      }
      for (; call != trace_.operator_calls.end() && call->position <= i; ++call) {
        if (calls_) AddReduction(*call, i);
      }
      items_before_.push_back(out_.items.size());
      if (i == trace_.events.size()) break;
      if (Status status = Add(i); !status.ok()) return status;
    }
    out_.part_begin.push_back(out_.items.size());
    if (out_.batch == 0) {
      return Status::BadInput("a trace without a 'step b=N' marker: its batch is not known");
    }
    MakeTokens();
    return std::move(out_);
  }

 private:
  Status Add(std::size_t index) {
    const Event& event = trace_.events[index];
    switch (event.kind) {
      case EventKind::kMarker:
        return AddMarker(event);
      case EventKind::kAlloc: {
        if (event.size > SizeRule::kLargest) {
          return Status::BadInput("event " + std::to_string(index) + " asks for " +
                                  std::to_string(event.size) + " bytes, more than any device has");
        }
        live_[event.address] = static_cast<std::int32_t>(out_.items.size());
        Push(event, -1);
        return {};
      }
      case EventKind::kFree: {
        const auto found = live_.find(event.address);
        if (found == live_.end()) {
          return Status::BadInput("event " + std::to_string(index) +
                                  " releases a block that was not allocated in this trace");
        }
        Push(event, found->second);
        const bool done =
            !has_completions_ || (index + 1 < trace_.events.size() &&
                                  trace_.events[index + 1].kind == EventKind::kFreeCompleted &&
                                  trace_.events[index + 1].address == event.address);
        out_.items.back().completes = done;
        if (!done) pending_[event.address] = found->second;
        live_.erase(found);
        return {};
      }
      case EventKind::kFreeCompleted: {
        const auto found = pending_.find(event.address);
        if (found == pending_.end()) return {};  // of the kFree just before
        Push(event, found->second);
        pending_.erase(found);
        return {};
      }
      case EventKind::kTag: {
        const auto found = live_.find(event.address);
        if (found == live_.end()) return {};
        Item& item = out_.items[static_cast<std::size_t>(found->second)];
        // What stays for the whole run says more than what passes through.
        if (item.role == TensorRole::kWeight || item.role == TensorRole::kBuffer ||
            item.role == TensorRole::kOptimizerState ||
            item.role == TensorRole::kLibraryWorkspace) {
          return {};
        }
        item.role = event.role;
        item.text = event.text;
        return {};
      }
      case EventKind::kContext:
        Push(event, -1);
        return {};
      case EventKind::kOutOfMemory:
        return Status::BadInput(
            "a trace with an out-of-memory event at " + std::to_string(index) +
            ": a model needs traces of runs that fit; trace smaller batches or a larger device");
      default:
        return {};  // segments follow from the requests
    }
  }

  void AddConvolution(const ConvolutionCall& call) {
    if (call.workspace != 0) {
      const auto found = live_.find(call.workspace);
      if (found != live_.end()) out_.items[static_cast<std::size_t>(found->second)].key = &call.key;
      return;
    }
    out_.items[PushNone(call.op, call.module, 1).front()].key = &call.key;
  }

  // `count` requests of 0 bytes, released at once: of a call that made none in this trace.
  std::vector<std::size_t> PushNone(OperatorId op, ModuleId module, std::size_t count) {
    Event event{.kind = EventKind::kAlloc, .op = op, .module = module};
    if (!out_.items.empty()) event.stream = out_.items.back().stream;
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(out_.items.size());
      Push(event, -1);
    }
    event.kind = EventKind::kFree;
    for (std::size_t i = count; i-- > 0;) Push(event, static_cast<std::int32_t>(made[i]));
    return made;
  }

  // A call that has two requests of its own, or none, is one that this knows.
  void AddReduction(const OperatorCall& call, std::size_t position) {
    const std::size_t first = call.events == 0
                                  ? out_.items.size()
                                  : items_before_[position - std::min(call.events, position)];
    std::vector<std::size_t> made;
    for (std::size_t i = first; i < out_.items.size(); ++i) {
      const Item& item = out_.items[i];
      if (item.kind != EventKind::kFree || static_cast<std::size_t>(item.block) < first) continue;
      made.push_back(static_cast<std::size_t>(item.block));
    }
    std::sort(made.begin(), made.end());
    if (made.empty()) made = PushNone(call.op, call.module, kReductionRequests);
    if (made.size() != kReductionRequests) return;
    for (std::size_t slot = 0; slot < made.size(); ++slot) {
      out_.items[made[slot]].key = &call.key;
      out_.items[made[slot]].slot = static_cast<std::uint8_t>(slot);
      out_.items[made[slot]].slots = kReductionRequests;
    }
  }

  Status AddMarker(const Event& event) {
    const std::string_view text = trace_.Text(event.text);
    if (text.starts_with(marker::kStepPrefix)) {
      const std::string_view digits = text.substr(marker::kStepPrefix.size());
      std::int64_t batch = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), batch);
      if (parsed.ec != std::errc() || batch < 1 || batch > MemoryModel::kLargestBatch) {
        return Status::BadInput("the marker '" + std::string(text) + "' names no batch");
      }
      if (out_.batch != 0 && out_.batch != batch) {
        return Status::BadInput("a trace with steps at batch " + std::to_string(out_.batch) +
                                " and " + std::to_string(batch) +
                                "; a model needs one batch a trace");
      }
      out_.batch = batch;
      out_.part_begin.push_back(out_.items.size());
    }
    Push(event, -1);
    return {};
  }

  void Push(const Event& event, std::int32_t block) {
    out_.items.push_back({.kind = event.kind,
                          .stream = event.stream,
                          .block = block,
                          .size = event.size,
                          .op = event.op,
                          .module = event.module,
                          .text = event.kind == EventKind::kMarker ? event.text : TextId::kNone,
                          .occasion = event.occasion});
  }

  [[nodiscard]] std::uint64_t Asker(const Item& item) const {
    return Mix(HashText(trace_.OperatorName(item.op)), HashText(trace_.ModulePath(item.module)));
  }

  // An allocation's token says where its block ends, so that an output and a
  // workspace of the same operator are told apart.
  void MakeTokens() {
    std::vector<std::size_t> end(out_.items.size(), 0);  // releasing item; 0: none
    for (std::size_t i = 0; i < out_.items.size(); ++i) {
      if (out_.items[i].kind == EventKind::kFree) {
        end[static_cast<std::size_t>(out_.items[i].block)] = i;
      }
    }
    std::vector<std::uint64_t> phase(out_.items.size());
    Phase now = Phase::kNone;
    std::uint64_t part = 0;
    for (std::size_t i = 0; i < out_.items.size(); ++i) {
      while (part + 1 < out_.part_begin.size() && i >= out_.part_begin[part + 1]) ++part;
      const Item& item = out_.items[i];
      if (item.kind == EventKind::kMarker) now = PhaseAfter(trace_.Text(item.text), now);
      phase[i] = part * 8 + static_cast<std::uint64_t>(now);
    }
    out_.tokens.reserve(out_.items.size());
    for (std::size_t i = 0; i < out_.items.size(); ++i) {
      const Item& item = out_.items[i];
      if (item.kind == EventKind::kMarker) {
        const std::string_view text = trace_.Text(item.text);
        const bool step = text.starts_with(marker::kStepPrefix);
        out_.tokens.push_back(Mix(1, HashText(step ? marker::kStepPrefix : text)));
        continue;
      }
      if (item.kind == EventKind::kContext) {
        out_.tokens.push_back(Mix(2, static_cast<std::uint64_t>(item.occasion)));
        continue;
      }
      std::uint64_t token = Mix(static_cast<std::uint64_t>(item.kind), Asker(item));
      token = Mix(token, static_cast<std::uint64_t>(item.stream));
      if (item.kind == EventKind::kAlloc) {
        const bool transient = end[i] == i + 1;  // as a workspace is
        token = Mix(token, transient     ? 7
                           : end[i] == 0 ? 8
                                         : Mix(phase[end[i]], Asker(out_.items[end[i]])));
      } else {
        token = Mix(token, out_.tokens[static_cast<std::size_t>(item.block)]);
      }
      out_.tokens.push_back(token);
    }
  }

  const Trace& trace_;
  const bool calls_;
  bool has_completions_ = false;  // some streams record requests and releases alone
  TraceItems out_;
  std::vector<std::size_t> items_before_;  // [event]: how many, with those of calls that ended
  std::unordered_map<std::uint64_t, std::int32_t> live_, pending_;
};

}  // namespace

Result<TraceItems> ItemsForModel(const Trace& trace, bool calls) {
  return Collector(trace, calls).Run();
}

}  // namespace memmodel
