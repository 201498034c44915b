// Merging works like this. The first trace's events become the program; every
// further trace is aligned with it, part by part (load, step 1, step 2, ...), by a
// longest common subsequence over the tokens of items.h. An aligned event gets
// the trace's size as one more sample; one that the program lacks is put in at
// its place, with only this trace in its mask. A release stands for another only
// if the allocations do, so an alignment by accident cannot join two blocks.
//
// Example: a convolution asks for out and a workspace at batch 4 (a a f), for out
// alone at batch 8 (a). The merged events are a{4,8} a{4} f{4}.
#include "src/model/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "src/classify/owner.h"
#include "src/core/align.h"
#include "src/model/items.h"
#include "src/model/key_family.h"

namespace memmodel {
namespace {

// Text -> its index in a list that grows.
class Interner {
 public:
  std::int32_t Add(const std::string& text) {
    const auto [it, added] = index_.try_emplace(text, static_cast<std::int32_t>(index_.size()));
    return it->second;
  }
  [[nodiscard]] std::vector<std::string> List() const {
    std::vector<std::string> list(index_.size());
    for (const auto& [text, index] : index_) list[static_cast<std::size_t>(index)] = text;
    return list;
  }

 private:
  std::unordered_map<std::string, std::int32_t> index_;
};

struct Node {
  ProgramEvent event;  // target: of an allocation unused, of a release a node's id
  std::uint64_t token = 0;
  std::vector<BatchBytes> sizes;     // kAlloc
  std::vector<BatchKey> keys;        // kAlloc: of the call whose workspace it is
  std::uint8_t slot = 0, slots = 1;  // kAlloc: which of how many requests of that call
  std::int32_t id = 0;               // stays the same while nodes are inserted before it
};

class Merger {
 public:
  explicit Merger(const WorkspaceAnswers& answers) : answers_(answers) {}

  Status Add(const Trace& trace, const TraceItems& traced) {
    if (parts_.empty()) parts_.resize(traced.part_begin.size() - 1);
    if (parts_.size() != traced.part_begin.size() - 1) {
      return Status::BadInput("traces with " + std::to_string(parts_.size() - 1) + " and " +
                              std::to_string(traced.part_begin.size() - 2) +
                              " steps; a model needs the same number");
    }
    trace_ = &trace;
    traced_ = &traced;
    node_of_item_.assign(traced.items.size(), -1);
    for (std::size_t p = 0; p < parts_.size(); ++p) MergePart(p);
    program_.batches.push_back(traced.batch);
    return {};
  }

  // The keys of all calls at batches 1..last, each once.
  [[nodiscard]] std::vector<std::string> Keys(std::int64_t last) const {
    std::set<std::string> keys;
    for (const std::vector<Node>& part : parts_) {
      for (const Node& node : part) {
        const std::optional<KeyFamily> family = FamilyOf(node);
        if (!family || family->constant()) continue;
        for (std::int64_t batch = 1; batch <= last; ++batch) {
          if (std::optional<std::string> key = family->At(batch)) keys.insert(*std::move(key));
        }
      }
    }
    return {keys.begin(), keys.end()};
  }

  Program Finish() {
    std::vector<std::int32_t> position(static_cast<std::size_t>(next_id_), -1);
    std::int32_t next = 0;
    for (const std::vector<Node>& part : parts_) {
      for (const Node& node : part) position[static_cast<std::size_t>(node.id)] = next++;
    }
    const std::vector<bool> chosen = ChosenByLibrary();
    std::map<SizeRule, std::int32_t> rules;
    for (const std::vector<Node>& part : parts_) {
      for (const Node& node : part) {
        ProgramEvent event = node.event;
        if (event.kind == EventKind::kAlloc) {
          const auto [it, added] =
              rules.try_emplace(RuleOf(node, chosen[static_cast<std::size_t>(node.id)]),
                                static_cast<std::int32_t>(rules.size()));
          if (added) program_.rules.push_back(it->first);
          event.target = it->second;
        } else if (IsRelease(event)) {
          event.target = position[static_cast<std::size_t>(event.target)];
        }
        program_.events.push_back(event);
      }
    }
    program_.operators = operators_.List();
    program_.texts = texts_.List();
    for (const std::string& key : modules_.List()) {
      const std::size_t space = key.find('\n');
      program_.modules.push_back({key.substr(space + 1), key.substr(0, space)});
    }
    return std::move(program_);
  }

 private:
  void MergePart(std::size_t p) {
    std::vector<Node>& nodes = parts_[p];
    const std::size_t begin = traced_->part_begin[p];
    const std::size_t end = traced_->part_begin[p + 1];
    std::vector<std::uint64_t> tokens;
    tokens.reserve(nodes.size());
    for (const Node& node : nodes) tokens.push_back(node.token);
    std::vector<Node> merged;
    merged.reserve(std::max(nodes.size(), end - begin));
    std::size_t i = 0, j = 0;
    const auto take = [&](std::size_t node_end, std::size_t item_end) {
      for (; i < node_end; ++i) merged.push_back(std::move(nodes[i]));
      for (; j < item_end; ++j) merged.push_back(NewNode(begin + j));
    };
    for (const AlignedRun& run :
         Align(tokens, std::span(traced_->tokens).subspan(begin, end - begin))) {
      take(run.a_begin, run.b_begin);
      for (std::size_t k = 0; k < run.length; ++k, ++i, ++j) {
        if (SameBlock(nodes[i], traced_->items[begin + j])) {
          Join(&nodes[i], begin + j);
          merged.push_back(std::move(nodes[i]));
        } else {
          merged.push_back(std::move(nodes[i]));
          merged.push_back(NewNode(begin + j));
        }
      }
    }
    take(nodes.size(), end - begin);
    nodes = std::move(merged);
  }

  // [id]: a workspace whose size cuDNN chose. It is made and released inside one
  // convolution, and follows from a plan: four batches of one plan say nothing of
  // a fifth that has another.
  [[nodiscard]] std::vector<bool> ChosenByLibrary() const {
    std::vector<bool> chosen(static_cast<std::size_t>(next_id_), false);
    const std::vector<std::string> names = operators_.List();
    std::vector<std::int32_t> op_of(static_cast<std::size_t>(next_id_), -1);
    for (const std::vector<Node>& part : parts_) {
      for (const Node& node : part) {
        const std::int32_t op = node.event.op;
        if (op < 0) continue;
        if (node.event.kind == EventKind::kAlloc) op_of[static_cast<std::size_t>(node.id)] = op;
        if (node.event.kind != EventKind::kFree) continue;
        const std::string& name = names[static_cast<std::size_t>(op)];
        const bool asks =
            name.find("conv") != std::string::npos || name.find("cudnn") != std::string::npos;
        const auto block = static_cast<std::size_t>(node.event.target);
        chosen[block] = asks && op_of[block] == op;
      }
    }
    return chosen;
  }

  // A line through two points is one only if no third could have contradicted it.
  [[nodiscard]] bool Checked(const Node& node) const {
    return node.sizes.size() > 2 || node.sizes.size() == program_.batches.size();
  }

  [[nodiscard]] SizeRule RuleOf(const Node& node, bool chosen) const {
    if (std::optional<SizeRule> planned = PlannedRule(node)) return *std::move(planned);
    SizeRule rule = FitSizeRule(node.sizes);
    const bool checked = Checked(node) || rule.kind == SizeRule::Kind::kConstant;
    return chosen || !checked ? TableOf(node.sizes) : rule;
  }

  // What was answered, as far as it was and if what was traced agrees.
  [[nodiscard]] std::optional<SizeRule> PlannedRule(const Node& node) const {
    const std::optional<KeyFamily> family = FamilyOf(node);
    if (!family) return std::nullopt;
    if (family->constant()) {
      const SizeRule rule = FitSizeRule(node.sizes);
      return rule.kind == SizeRule::Kind::kConstant ? std::optional(rule) : std::nullopt;
    }
    std::vector<Bytes> answered;
    auto traced = node.sizes.begin();
    auto traced_key = node.keys.begin();
    for (std::int64_t batch = 1; batch <= MemoryModel::kLargestBatch; ++batch) {
      const std::optional<std::string> key = family->At(batch);
      const bool known = traced != node.sizes.end() && traced->batch == batch;
      if (known && (!key || *traced_key->key != *key)) {  // batch 1
        answered.push_back(traced->bytes);
      } else {
        const auto found = key ? answers_.find(*key) : answers_.end();
        if (found == answers_.end()) break;
        const std::vector<Bytes>& bytes = found->second;
        if (!bytes.empty() && bytes.size() != node.slots) break;
        const Bytes answer = bytes.empty() ? 0 : bytes[node.slot];
        if (known && answer != traced->bytes) return std::nullopt;
        answered.push_back(std::min(answer, SizeRule::kLargest));
      }
      if (known) ++traced, ++traced_key;
    }
    return answered.empty() ? std::nullopt : std::optional(PlannedOf(node.sizes, answered));
  }

  // At batch 1 dimensions of size 1 may have any stride: the others go without it.
  [[nodiscard]] std::optional<KeyFamily> FamilyOf(const Node& node) const {
    if (!Checked(node)) return std::nullopt;
    std::optional<KeyFamily> family = KeyFamily::Of(node.keys);
    if (family || node.keys.size() < 4 || node.keys.front().batch != 1) return family;
    if (node.keys.front().key == nullptr) return std::nullopt;
    return KeyFamily::Of({node.keys.begin() + 1, node.keys.end()});
  }

  [[nodiscard]] bool SameBlock(const Node& node, const Item& item) const {
    return item.block < 0 ||
           node.event.target == node_of_item_[static_cast<std::size_t>(item.block)];
  }

  void Join(Node* node, std::size_t index) {
    const Item& item = traced_->items[index];
    node->event.mask |= Bit();
    node->event.completes = node->event.completes && item.completes;
    if (node->event.role == TensorRole::kNone) node->event.role = item.role;
    if (item.kind == EventKind::kAlloc) AddSample(node, item);
    node_of_item_[index] = node->id;
  }

  void AddSample(Node* node, const Item& item) const {
    node->sizes.push_back({traced_->batch, item.size});
    node->keys.push_back({traced_->batch, item.key});
    if (item.key != nullptr) node->slot = item.slot, node->slots = item.slots;
  }

  Node NewNode(std::size_t index) {
    const Item& item = traced_->items[index];
    Node node;
    node.id = next_id_++;
    node.token = traced_->tokens[index];
    node.event = {.kind = item.kind,
                  .completes = item.completes,
                  .role = item.role,
                  .stream = item.stream,
                  .mask = Bit()};
    if (item.op != OperatorId::kNone) {
      node.event.op = operators_.Add(std::string(trace_->OperatorName(item.op)));
    }
    node.event.module = ModuleOf(item);
    if (item.kind == EventKind::kMarker) {
      std::string text(trace_->Text(item.text));
      if (text.starts_with(marker::kStepPrefix)) text = marker::kStepPrefix;
      node.event.target = texts_.Add(text);
    } else if (item.kind == EventKind::kContext) {
      node.event.target = static_cast<std::int32_t>(item.occasion);
    } else if (item.kind == EventKind::kAlloc) {
      AddSample(&node, item);
    } else {
      node.event.target = node_of_item_[static_cast<std::size_t>(item.block)];
    }
    node_of_item_[index] = node.id;
    return node;
  }

  // The module that asked; of a parameter, its gradient and its state, the owner
  // ("layer1.0.conv1.weight" is layer1.0.conv1's).
  std::int32_t ModuleOf(const Item& item) {
    const bool owned = item.role == TensorRole::kWeight || item.role == TensorRole::kBuffer ||
                       item.role == TensorRole::kGradient ||
                       item.role == TensorRole::kOptimizerState;
    if (owned && item.kind == EventKind::kAlloc) {
      const std::string path = OwnerOf(trace_->modules, trace_->Text(item.text));
      for (const ModuleInfo& info : trace_->modules) {
        if (info.path == path) return modules_.Add(info.type + "\n" + info.path);
      }
      return modules_.Add("\n" + path);
    }
    if (item.module == ModuleId::kNone) return -1;
    const ModuleInfo& info = trace_->modules[static_cast<std::size_t>(item.module)];
    return modules_.Add(info.type + "\n" + info.path);
  }

  [[nodiscard]] SampleMask Bit() const { return SampleMask{1} << program_.batches.size(); }

  const WorkspaceAnswers& answers_;
  Program program_;
  std::vector<std::vector<Node>> parts_;
  std::int32_t next_id_ = 0;
  Interner operators_, modules_, texts_;
  const Trace* trace_ = nullptr;
  const TraceItems* traced_ = nullptr;
  std::vector<std::int32_t> node_of_item_;
};

}  // namespace

Program::Neighbours Program::NeighboursOf(std::int64_t batch) const {
  const auto it = std::lower_bound(batches.begin(), batches.end(), batch);
  const auto at = static_cast<std::size_t>(it - batches.begin());
  if (it == batches.end()) return {at - 1, at - 1, false};
  if (*it == batch) return {at, at, true};
  if (at == 0) return {0, 0, false};
  return {at - 1, at, true};
}

std::size_t Program::Nearest(std::int64_t batch) const {
  const Neighbours n = NeighboursOf(batch);
  const auto ratio = [&](std::size_t s) {
    return std::fabs(std::log(static_cast<double>(batches[s]) / static_cast<double>(batch)));
  };
  const bool single = batches[n.low] == 1 && batch > 1;
  return !single && ratio(n.low) < ratio(n.high) ? n.low : n.high;
}

bool Program::SameRequests(std::size_t s, std::size_t t) const {
  return std::all_of(events.begin(), events.end(), [&](const ProgramEvent& e) {
    return ((e.mask >> s) & 1) == ((e.mask >> t) & 1);
  });
}

Program Program::Without(std::size_t s) const {
  Program left = *this;
  left.batches.erase(left.batches.begin() + static_cast<std::ptrdiff_t>(s));
  for (SizeRule& rule : left.rules) {
    if (rule.points.empty()) continue;
    std::erase_if(rule.points, [&](const BatchBytes& p) { return p.batch == batches[s]; });
    SizeRule table = rule.points.empty() ? SizeRule() : TableOf(rule.points);
    if (rule.kind == SizeRule::Kind::kPlanned && !rule.points.empty()) {
      table.kind = rule.kind;
      table.last = rule.last;
      table.pieces = std::move(rule.pieces);
    }
    rule = std::move(table);
  }
  const SampleMask below = (SampleMask{1} << s) - 1;
  for (ProgramEvent& event : left.events) {
    event.mask = (event.mask & below) | (event.mask >> 1 & ~below);
  }
  return left;
}

namespace {

Status MergeAll(std::span<const Trace> traces, Merger* merger) {
  // Traces that do not tell of calls cannot be set beside those that do.
  const bool calls = std::all_of(traces.begin(), traces.end(), [](const Trace& trace) {
    return !trace.convolutions.empty() || !trace.operator_calls.empty();
  });
  std::map<std::int64_t, std::pair<const Trace*, TraceItems>> by_batch;
  for (const Trace& trace : traces) {
    Result<TraceItems> items = ItemsForModel(trace, calls);
    if (!items.ok()) return items.status();
    const std::int64_t batch = items->batch;
    by_batch.try_emplace(batch, &trace, *std::move(items));
  }
  if (by_batch.size() < 2) {
    return Status::InvalidArgument("traces of " + std::to_string(by_batch.size()) +
                                   " batches; a model of the batch needs at least two");
  }
  if (by_batch.size() > kMostSamples) {
    return Status::InvalidArgument("traces of " + std::to_string(by_batch.size()) +
                                   " batches; a model takes up to " + std::to_string(kMostSamples));
  }
  for (const auto& [batch, traced] : by_batch) {
    if (Status status = merger->Add(*traced.first, traced.second); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<Program> BuildProgram(std::span<const Trace> traces, const WorkspaceAnswers& answers) {
  Merger merger(answers);
  if (Status status = MergeAll(traces, &merger); !status.ok()) return status;
  return merger.Finish();
}

Result<std::vector<std::string>> KeysOfProgram(std::span<const Trace> traces, std::int64_t last) {
  const WorkspaceAnswers none;
  Merger merger(none);
  if (Status status = MergeAll(traces, &merger); !status.ok()) return status;
  return merger.Keys(last);
}

}  // namespace memmodel
