// Python drops a tensor when the last name for it goes: a variable that is bound
// again or whose function returns. A graph has no variables. But the archive keeps,
// for each node, the module calls and the source lines of all functions that were
// under way (nn_module_stack, stack_trace), and these tell three things:
//
// 1. Module.__call__ holds the arguments of forward until forward returns: a value
//    made outside of a module call and used inside lives to the end of that call.
// 2. A statement "name = ..." binds what it made for use after it (if nothing is used
//    after it, what its last node made). It lives until the same function binds the
//    name again or returns.
// 3. Everything else is a temporary and ends with its last use.
//
// Example. Two nodes of LlamaRMSNorm.forward:
//     variance = hidden_states.pow(2).mean(-1, keepdim=True)     pow, mean
//     hidden_states = hidden_states * torch.rsqrt(variance + eps)  add, rsqrt, mul
// "pow" ends with its last use, in mean; "mean" is bound to `variance` and so lives
// to the end of forward, although nothing uses it after add.
//
// Statements nest: while a module runs, its caller's statement is under way, and what
// the module returns is what the caller's statement binds. torch.export writes down
// the forward functions alone, so that variables of other functions are not known.
// Archives without stack traces fall back to 1 and 3. docs/pt2.md has what each rule
// gives on measured runs.
#include "src/step/pt2_lifetimes.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace memmodel::step {
namespace {

struct Frame {
  std::string_view file;
  std::string_view function;
  std::string_view line;  // its number
  std::string_view text;  // the source line
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

// Reads Python's own form of a stack, outermost frame first:
//   File "a.py", line 3, in forward
//     x = self.b(x)
std::vector<Frame> FramesOf(std::string_view trace) {
  std::vector<Frame> frames;
  while (!trace.empty()) {
    const std::size_t end = trace.find('\n');
    const std::string_view line = Trimmed(trace.substr(0, end));
    trace = end == std::string_view::npos ? std::string_view() : trace.substr(end + 1);
    const std::size_t number = line.find("\", line ");
    const std::size_t in = line.find(", in ", number == std::string_view::npos ? 0 : number + 8);
    if (line.starts_with("File \"") && number != std::string_view::npos &&
        in != std::string_view::npos) {
      frames.push_back({line.substr(6, number - 6),
                        line.substr(in + 5),
                        line.substr(number + 8, in - number - 8),
                        {}});
    } else if (!frames.empty()) {
      frames.back().text = line;
    }
  }
  return frames;
}

bool IsName(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

// The local variables that a statement binds: "a, b = f(x)" gives a and b; none for
// statements that bind no local variable.
std::vector<std::string_view> Targets(std::string_view statement) {
  int brackets = 0;
  std::size_t equals = std::string_view::npos;
  for (std::size_t i = 0; i < statement.size(); ++i) {
    const char c = statement[i];
    if (c == '(' || c == '[' || c == '{') ++brackets;
    if (c == ')' || c == ']' || c == '}') --brackets;
    if (c == '"' || c == '\'' || c == '#') return {};
    if (c != '=' || brackets != 0) continue;
    const char before = i > 0 ? statement[i - 1] : ' ';
    const char after = i + 1 < statement.size() ? statement[i + 1] : ' ';
    if (after == '=' || before == '!' || before == '<' || before == '>' || before == ':') return {};
    equals = i;
    break;
  }
  if (equals == std::string_view::npos) return {};
  std::string_view left = statement.substr(0, equals);
  while (!left.empty() &&
         std::string_view("+-*/@%&|^ ").find(left.back()) != std::string_view::npos) {
    left.remove_suffix(1);  // x += y
  }
  const std::size_t colon = left.find(':');
  if (colon != std::string_view::npos) left = left.substr(0, colon);  // x: Tensor = y
  left = Trimmed(left);
  if (left.starts_with('(') && left.ends_with(')')) left = left.substr(1, left.size() - 2);
  std::vector<std::string_view> names;
  while (true) {
    const std::size_t comma = left.find(',');
    const std::string_view name = Trimmed(left.substr(0, comma));
    if (!IsName(name)) return {};
    names.push_back(name);
    if (comma == std::string_view::npos) return names;
    left = left.substr(comma + 1);
    if (Trimmed(left).empty()) return names;  // "a, = f(x)"
  }
}

class Assigner {
 public:
  Assigner(Instructions& instructions, const std::vector<const Node*>& origins, int first_value,
           Lifetime lifetime)
      : instructions_(instructions),
        origins_(origins),
        first_value_(static_cast<std::size_t>(first_value)),
        lifetime_(lifetime),
        made_(static_cast<std::size_t>(instructions.slots), 0),
        last_use_(static_cast<std::size_t>(instructions.slots), 0),
        end_(static_cast<std::size_t>(instructions.slots)) {}

  void Run() {
    const std::size_t n = instructions_.list.size();
    calls_of_.resize(n);
    for (std::size_t i = 0; i < n; ++i) EnterCalls(i);
    CloseCalls(0, n);
    for (std::size_t i = 0; i < n; ++i) AddUses(i);
    if (lifetime_ == Lifetime::kVariable) AddVariables();
    Write();
  }

 private:
  struct Call {
    std::string_view key;
    std::size_t first = 0;
    std::size_t last = 0;
  };
  // When a value ends, and what orders it among others that end there: temporaries
  // first, then variables of inner functions before outer ones in the order of their
  // first binding, then what module calls held.
  struct End {
    std::size_t at = 0;
    int reason = 0;
    int depth = 0;
    std::size_t order = 0;
    [[nodiscard]] auto Key() const { return std::tuple(at, reason, depth, order); }
  };
  struct Variable {
    std::vector<int> slots;
    std::size_t order = 0;
  };
  struct OpenFrame {
    Frame frame;
    std::size_t statement = 0;  // the first instruction of the statement under way
    std::map<std::string, Variable, std::less<>> variables;
    std::size_t bindings = 0;
  };

  void Extend(int slot, const End& end) {
    End& known = end_[static_cast<std::size_t>(slot)];
    if (end.Key() > known.Key()) known = end;
  }

  void CloseCalls(std::size_t keep, std::size_t at) {
    while (open_calls_.size() > keep) {
      calls_[open_calls_.back()].last = at == 0 ? 0 : at - 1;
      open_calls_.pop_back();
    }
  }

  void EnterCalls(std::size_t i) {
    if (origins_[i] != nullptr && !origins_[i]->modules.empty()) {
      const std::vector<ModuleCall>& modules = origins_[i]->modules;
      std::size_t common = 0;
      while (common < open_calls_.size() && common < modules.size() &&
             calls_[open_calls_[common]].key == modules[common].key) {
        ++common;
      }
      CloseCalls(common, i);
      for (std::size_t m = common; m < modules.size(); ++m) {
        open_calls_.push_back(calls_.size());
        calls_.push_back({modules[m].key, i, 0});
      }
    }
    calls_of_[i] = open_calls_;
  }

  template <typename Function>
  static void ForEachSlot(const Operand& operand, const Function& function) {
    if (operand.kind == Operand::Kind::kSlot) function(operand.slot);
    for (const Operand& item : operand.items) ForEachSlot(item, function);
  }

  void AddUses(std::size_t i) {
    for (const Operand& operand : instructions_.list[i].operands) {
      ForEachSlot(operand, [&](int slot) {
        Extend(slot, {i, 0, 0, 0});
        last_use_[static_cast<std::size_t>(slot)] = i;
        if (lifetime_ == Lifetime::kLastUse) return;
        for (const std::size_t id : calls_of_[i]) {
          if (calls_[id].first <= made_[static_cast<std::size_t>(slot)]) continue;
          Extend(slot, {calls_[id].last, 2, 0, 0});
          break;
        }
      });
    }
    for (const int slot : instructions_.list[i].results) {
      if (slot == kNoSlot) continue;
      made_[static_cast<std::size_t>(slot)] = i;
      Extend(slot, {i, 0, 0, 0});
    }
  }

  // How many of the open frames go on with the frames of instruction `i`: those whose
  // function is the same, called from the same lines, in the same module calls.
  std::size_t CommonFrames(const std::vector<Frame>& frames, std::size_t i) const {
    std::size_t common = 0;
    while (common < open_frames_.size() && common < frames.size() &&
           open_frames_[common].frame.file == frames[common].file &&
           open_frames_[common].frame.function == frames[common].function) {
      ++common;
      if (open_frames_[common - 1].frame.line != frames[common - 1].line) break;
    }
    // A module call has one frame of its own, forward: the module calls that both have
    // in common bound the frames.
    std::size_t same_calls = 0;
    while (same_calls < frame_calls_.size() && same_calls < calls_of_[i].size() &&
           frame_calls_[same_calls] == calls_of_[i][same_calls]) {
      ++same_calls;
    }
    if (same_calls == frame_calls_.size()) return common;
    std::size_t forwards = 0;
    for (std::size_t k = 0; k < open_frames_.size(); ++k) {
      if (open_frames_[k].frame.function == "forward" && forwards++ == same_calls)
        return std::min(common, k);
    }
    return common;
  }

  void CloseFrames(std::size_t keep, std::size_t last) {
    while (open_frames_.size() > keep) {
      const int depth = -static_cast<int>(open_frames_.size());
      for (const auto& [name, variable] : open_frames_.back().variables) {
        for (const int slot : variable.slots) Extend(slot, {last, 1, depth, variable.order});
      }
      open_frames_.pop_back();
    }
  }

  // What the statement of frame `open`, which ends with instruction `i`, binds.
  std::vector<int> Bound(const OpenFrame& open, std::size_t i) const {
    std::vector<int> bound;
    for (std::size_t at = open.statement; at <= i; ++at) {
      for (const int slot : instructions_.list[at].results) {
        if (slot != kNoSlot && last_use_[static_cast<std::size_t>(slot)] > i) bound.push_back(slot);
      }
    }
    if (bound.empty()) {
      for (const int slot : instructions_.list[i].results) {
        if (slot != kNoSlot) bound.push_back(slot);
      }
    }
    return bound;
  }

  // Instruction `i` ends the statements of all open frames from `outermost` on.
  void Bind(std::size_t i, std::size_t outermost) {
    for (std::size_t k = open_frames_.size(); k-- > outermost;) {
      OpenFrame& open = open_frames_[k];
      const std::vector<std::string_view> targets = Targets(open.frame.text);
      if (targets.empty()) continue;
      const std::vector<int> bound = Bound(open, i);
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const auto [it, added] = open.variables.try_emplace(std::string(targets[t]));
        Variable& variable = it->second;
        if (added) variable.order = open.bindings++;
        for (const int slot : variable.slots) Extend(slot, {i, 0, 0, 0});
        variable.slots.clear();
        if (bound.size() == targets.size()) {
          variable.slots.push_back(bound[t]);
        } else if (t == 0) {
          variable.slots = bound;
        }
      }
    }
  }

  void AddVariables() {
    const std::size_t n = instructions_.list.size();
    std::vector<std::size_t> traced;  // instructions with a stack
    for (std::size_t i = 0; i < n; ++i) {
      if (origins_[i] != nullptr && !origins_[i]->modules.empty() &&
          !instructions_.list[i].results.empty()) {
        traced.push_back(i);
      }
    }
    std::vector<Frame> next = traced.empty() ? std::vector<Frame>() : FramesAt(traced[0]);
    for (std::size_t t = 0; t < traced.size(); ++t) {
      const std::size_t i = traced[t];
      for (std::size_t k = 0; k < open_frames_.size(); ++k) open_frames_[k].frame = next[k];
      for (std::size_t k = open_frames_.size(); k < next.size(); ++k) {
        open_frames_.push_back({next[k], i, {}, 0});
      }
      frame_calls_ = calls_of_[i];
      std::size_t keep = 0;
      if (t + 1 < traced.size()) {
        next = FramesAt(traced[t + 1]);
        keep = CommonFrames(next, traced[t + 1]);
      }
      // The frame that goes on with another line has ended a statement too.
      const bool new_statement = keep == 0 || keep > next.size() ||
                                 open_frames_[keep - 1].frame.line != next[keep - 1].line;
      Bind(i, keep > 0 && new_statement ? keep - 1 : keep);
      CloseFrames(keep, i);
      if (keep > 0 && new_statement) open_frames_.back().statement = i + 1;
    }
    CloseFrames(0, traced.empty() ? 0 : traced.back());
  }

  [[nodiscard]] std::vector<Frame> FramesAt(std::size_t i) const {
    return FramesOf(origins_[i]->stack_trace);
  }

  void Write() {
    std::vector<bool> kept(end_.size(), false);
    for (const Operand& output : instructions_.outputs) {
      ForEachSlot(output, [&](int slot) { kept[static_cast<std::size_t>(slot)] = true; });
    }
    std::vector<int> slots;
    for (std::size_t slot = first_value_; slot < end_.size(); ++slot) {
      if (!kept[slot]) slots.push_back(static_cast<int>(slot));
    }
    std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) {
      return end_[static_cast<std::size_t>(a)].Key() < end_[static_cast<std::size_t>(b)].Key();
    });
    for (const int slot : slots) {
      instructions_.list[end_[static_cast<std::size_t>(slot)].at].releases.push_back(slot);
    }
  }

  Instructions& instructions_;
  const std::vector<const Node*>& origins_;
  const std::size_t first_value_;
  const Lifetime lifetime_;
  std::vector<std::size_t> made_;
  std::vector<std::size_t> last_use_;
  std::vector<End> end_;
  std::vector<Call> calls_;
  std::vector<std::size_t> open_calls_;             // outermost first
  std::vector<std::vector<std::size_t>> calls_of_;  // of each instruction
  std::vector<OpenFrame> open_frames_;              // outermost first
  std::vector<std::size_t> frame_calls_;            // the module calls they are in
};

}  // namespace

void AssignReleases(Instructions& instructions, const std::vector<const Node*>& origins,
                    int first_value, Lifetime lifetime) {
  if (instructions.list.empty()) return;
  Assigner(instructions, origins, first_value, lifetime).Run();
}

}  // namespace memmodel::step
