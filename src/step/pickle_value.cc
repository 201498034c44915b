// The pickle machine of Python's Lib/pickletools.py, protocols 2 to 5, with values
// that do nothing. Opcodes are named as there.
#include "src/step/pickle_value.h"

#include <cstring>
#include <unordered_map>
#include <utility>

namespace memmodel::step {

using Kind = PickleValue::Kind;

class PickleReader {
 public:
  PickleReader(Pickle* pickle, std::string_view bytes) : pickle_(pickle), bytes_(bytes) {}

  Status Run() {
    for (;;) {
      if (at_ >= bytes_.size()) return Damaged("it ends early");
      const auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == '.') break;
      Step(op);
      if (!error_.empty()) return Damaged(error_);
    }
    if (stack_.size() != 1) return Damaged("it leaves no single value");
    pickle_->root_ = stack_.back();
    pickle_->consumed_ = at_;
    return {};
  }

 private:
  Status Damaged(const std::string& why) const {
    return Status::BadInput("the pickle is damaged or foreign: " + why + " (byte " +
                            std::to_string(at_) + ")");
  }

  void Fail(const char* why) {
    if (error_.empty()) error_ = why;
  }

  PickleValue* New(Kind kind) {
    PickleValue& value = pickle_->values_.emplace_back();
    value.kind = kind;
    return &value;
  }

  PickleValue* Push(Kind kind) {
    stack_.push_back(New(kind));
    return stack_.back();
  }

  PickleValue* Pop() {
    if (stack_.empty() || stack_.back()->kind == Kind::kMark) {
      Fail("it takes a value from an empty stack");
      return New(Kind::kOther);
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  std::vector<PickleValue*> PopToMark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1]->kind != Kind::kMark) --mark;
    if (mark == 0) {
      Fail("a mark is missing");
      return {};
    }
    std::vector<PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                    stack_.end());
    stack_.resize(mark - 1);
    return items;
  }

  std::string_view Take(std::uint64_t n) {
    if (n > bytes_.size() - at_) {
      Fail("it ends early");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, n);
    at_ += n;
    return taken;
  }

  // Little-endian, signed if `n` is 4 and `is_signed`.
  std::uint64_t TakeNumber(std::size_t n) {
    std::uint64_t value = 0;
    const std::string_view raw = Take(n);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
    }
    return value;
  }

  std::string_view TakeLine() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      Fail("it ends early");
      return {};
    }
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  void PushLong(std::string_view raw) {
    PickleValue* value = Push(Kind::kInt);
    std::uint64_t bits = !raw.empty() && (raw.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < raw.size() && i < 8; ++i) {
      bits &= ~(std::uint64_t{0xff} << (8 * i));
      bits |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
    }
    value->number = static_cast<std::int64_t>(bits);
  }

  void PushText(std::uint64_t n) { Push(Kind::kText)->text = Take(n); }
  void PushBytes(std::uint64_t n) {
    Take(n);
    Push(Kind::kOther);
  }
  void PushInt(std::int64_t number) { Push(Kind::kInt)->number = number; }

  void PushTuple(std::size_t n) {
    std::vector<PickleValue*> items(n);
    for (std::size_t i = n; i-- > 0;) items[i] = Pop();
    Push(Kind::kTuple)->items = std::move(items);
  }

  void PushCall(PickleValue* callable, PickleValue* arguments) {
    Push(Kind::kCall)->items = {callable, arguments};
  }

  void AddEntries(std::vector<PickleValue*> entries) {
    if (stack_.empty()) return Fail("it sets items on nothing");
    PickleValue* target = stack_.back();
    std::vector<PickleValue*>& list = target->kind == Kind::kCall ? target->entries : target->items;
    if (target->kind == Kind::kCall || target->kind == Kind::kDict || target->kind == Kind::kList) {
      list.insert(list.end(), entries.begin(), entries.end());
    }
  }

  void Get(std::uint64_t index) {
    const auto it = memo_.find(index);
    if (it == memo_.end()) return Fail("it recalls a value that it did not keep");
    stack_.push_back(it->second);
  }

  void Put(std::uint64_t index) {
    if (stack_.empty()) return Fail("it keeps a value of an empty stack");
    memo_[index] = stack_.back();
  }

  void Step(unsigned char op) {
    switch (op) {
      case 0x80:
        Take(1);
        break;  // PROTO
      case 0x95:
        Take(8);
        break;  // FRAME
      case '(':
        Push(Kind::kMark);
        break;  // MARK
      case 'N':
        Push(Kind::kOther);
        break;  // NONE
      case 0x88:
        PushInt(1);
        break;  // NEWTRUE
      case 0x89:
        PushInt(0);
        break;  // NEWFALSE
      case 'J':
        PushInt(static_cast<std::int32_t>(TakeNumber(4)));
        break;  // BININT
      case 'K':
        PushInt(static_cast<std::int64_t>(TakeNumber(1)));
        break;  // BININT1
      case 'M':
        PushInt(static_cast<std::int64_t>(TakeNumber(2)));
        break;  // BININT2
      case 0x8a:
        PushLong(Take(TakeNumber(1)));
        break;  // LONG1
      case 0x8b:
        PushLong(Take(TakeNumber(4)));
        break;  // LONG4
      case 'G':
        PushBytes(8);
        break;  // BINFLOAT
      case 'X':
        PushText(TakeNumber(4));
        break;  // BINUNICODE
      case 0x8c:
        PushText(TakeNumber(1));
        break;  // SHORT_BINUNICODE
      case 0x8d:
        PushText(TakeNumber(8));
        break;  // BINUNICODE8
      case 'T':
        PushText(TakeNumber(4));
        break;  // BINSTRING
      case 'U':
        PushText(TakeNumber(1));
        break;  // SHORT_BINSTRING
      case 'B':
        PushBytes(TakeNumber(4));
        break;  // BINBYTES
      case 'C':
        PushBytes(TakeNumber(1));
        break;  // SHORT_BINBYTES
      case 0x8e:
        PushBytes(TakeNumber(8));
        break;  // BINBYTES8
      case 0x96:
        PushBytes(TakeNumber(8));
        break;  // BYTEARRAY8
      case '}':
        Push(Kind::kDict);
        break;  // EMPTY_DICT
      case ']':
        Push(Kind::kList);
        break;  // EMPTY_LIST
      case 0x8f:
        Push(Kind::kOther);
        break;  // EMPTY_SET
      case ')':
        Push(Kind::kTuple);
        break;  // EMPTY_TUPLE
      case 0x85:
        PushTuple(1);
        break;  // TUPLE1
      case 0x86:
        PushTuple(2);
        break;  // TUPLE2
      case 0x87:
        PushTuple(3);
        break;  // TUPLE3
      case 'h':
        Get(TakeNumber(1));
        break;  // BINGET
      case 'j':
        Get(TakeNumber(4));
        break;  // LONG_BINGET
      case 'q':
        Put(TakeNumber(1));
        break;  // BINPUT
      case 'r':
        Put(TakeNumber(4));
        break;  // LONG_BINPUT
      case 0x94:
        Put(memo_.size());
        break;  // MEMOIZE
      case '0':
        Pop();
        break;  // POP
      case '1':
        PopToMark();
        break;  // POP_MARK
      default:
        StepOnObjects(op);
    }
  }

  void StepOnObjects(unsigned char op) {
    switch (op) {
      case 't': {  // TUPLE
        std::vector<PickleValue*> items = PopToMark();
        Push(Kind::kTuple)->items = std::move(items);
        break;
      }
      case 'a':
        AddEntries({Pop()});
        break;   // APPEND (what it appends to is below)
      case 'e':  // APPENDS
      case 'u':
        AddEntries(PopToMark());
        break;  // SETITEMS
      case 0x90:
        PopToMark();
        break;  // ADDITEMS
      case 0x91:
        PopToMark();
        Push(Kind::kOther);
        break;     // FROZENSET
      case 's': {  // SETITEM
        PickleValue* value = Pop();
        PickleValue* key = Pop();
        AddEntries({key, value});
        break;
      }
      case 'c': {  // GLOBAL
        const std::string module(TakeLine());
        Push(Kind::kGlobal)->text = module + "." + std::string(TakeLine());
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const std::string name = Pop()->text;
        const std::string module = Pop()->text;
        Push(Kind::kGlobal)->text = module + "." + name;
        break;
      }
      case 'Q': {  // BINPERSID
        PickleValue* id = Pop();
        Push(Kind::kPersistent)->items = {id};
        break;
      }
      case 0x81:   // NEWOBJ
      case 'R': {  // REDUCE
        PickleValue* arguments = Pop();
        PickleValue* callable = Pop();
        PushCall(callable, arguments);
        break;
      }
      case 0x92: {  // NEWOBJ_EX
        Pop();
        PickleValue* arguments = Pop();
        PickleValue* callable = Pop();
        PushCall(callable, arguments);
        break;
      }
      case 'b': {  // BUILD
        PickleValue* state = Pop();
        if (stack_.empty()) return Fail("it builds nothing");
        stack_.back()->state = state;
        break;
      }
      default:
        Fail("an opcode that torch.save does not write");
    }
  }

  Pickle* pickle_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  std::string error_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

Status Pickle::Read(std::string_view bytes) { return PickleReader(this, bytes).Run(); }

}  // namespace memmodel::step
