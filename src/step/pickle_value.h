// Pickles as inert values: nothing is imported, called or built.
#ifndef MEMMODEL_SRC_STEP_PICKLE_VALUE_H_
#define MEMMODEL_SRC_STEP_PICKLE_VALUE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "memmodel/status.h"

namespace memmodel::step {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kOther,       // None, floats, bytes, sets: of no interest
    kMark,        // on the stack only
    kInt,         // number (booleans too)
    kText,        // text
    kGlobal,      // text = "module.name"
    kTuple,       // items
    kList,        // items
    kDict,        // items: key, value, key, value, ...
    kCall,        // items[0] called with the tuple items[1]; state may follow
    kPersistent,  // items[0] is the persistent id
  };
  Kind kind = Kind::kOther;
  std::int64_t number = 0;
  std::string text;
  std::vector<PickleValue*> items;
  std::vector<PickleValue*> entries;  // kCall: dict entries set on the result
  PickleValue* state = nullptr;       // kCall: what BUILD gave
};

// Owns the values of one pickle; values refer to each other freely, cycles too.
class Pickle {
 public:
  // Reads the pickle at the start of `bytes`. Fails for opcodes that torch.save never
  // writes, for damage and for an end before STOP.
  Status Read(std::string_view bytes);

  [[nodiscard]] const PickleValue* root() const { return root_; }
  [[nodiscard]] std::size_t consumed() const { return consumed_; }

 private:
  friend class PickleReader;

  std::deque<PickleValue> values_;
  PickleValue* root_ = nullptr;
  std::size_t consumed_ = 0;
};

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_PICKLE_VALUE_H_
