// What diff compares: the allocations, releases and markers of a trace, cut into
// the load and the steps.
#ifndef MEMMODEL_SRC_DIFF_ITEMS_H_
#define MEMMODEL_SRC_DIFF_ITEMS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memmodel/trace.h"

namespace memmodel {

struct DiffItem {
  std::int64_t event = -1;  // index into Trace::events
  std::int64_t block = -1;  // for a release: the event that allocated; itself for an allocation
  Phase phase = Phase::kNone;
};

struct DiffItems {
  struct Part {
    std::string name;
    std::vector<DiffItem> items;
    std::vector<std::uint64_t> tokens;  // one an item: kind and rounded size, or marker text
    std::int64_t requests = 0;
    Bytes peak = 0;  // of the live requests, rounded, while the part runs
  };
  std::vector<Part> parts;
  // Per event: the event that releases what it allocated; -1 for none.
  std::vector<std::int64_t> released_at;
};

DiffItems ItemsOf(const Trace& trace, Bytes rounding);

inline Bytes RoundToMultiple(Bytes size, Bytes rounding) {
  return (size + rounding - 1) / rounding * rounding;
}

}  // namespace memmodel

#endif  // MEMMODEL_SRC_DIFF_ITEMS_H_
